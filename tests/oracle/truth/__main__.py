"""The commands of `./oracle`."""

import importlib
import sys

#: Name, function, and what it is for.
COMMANDS = {
    'run': ('record.main', 'MODEL [--batch N …]: peaks of a training loop, as JSON'),
    'many': ('record.main_many', 'FILE OUT.jsonl: one run for each line of FILE'),
    'profile': ('profile.main', 'MODEL … --out FILE.json.gz [--strip]: a profiler trace from the CPU'),
    'fail': ('fail.main', 'MIB MODEL …: runs out of memory on a device with MIB MiB, as JSON'),
    'python': ('record.main_script', 'SCRIPT …: a script of your own on the fake device'),
    'catalogue': ('catalogue.main', 'FOLDER [NAME…]: every module and operator by itself'),
    'export': ('export.main', 'FOLDER SETS MODEL…: ONNX files without weights'),
    'example': ('export.main_example', 'FILE.onnx.gz OUT.onnx: a model without weights as the page’s example'),
    'survey': ('survey.main', 'LIST FORMATS INDEX: truths and exports of many models, kept'),
    'construct': ('survey.main_construct', 'LIST: whether each name of such a list makes a model'),
    'replay': ('replay.main', 'EVENTS.jsonl.gz: recorded events through the allocator again'),
    'allocator': ('allocator.main', '[SETTING…]: the allocator under every setting, call by call'),
    'programs': ('replay.main_programs', 'SEED COUNT OUT.jsonl.gz: random allocation programs'),
    'open': ('snapshot.main_open', 'FILE.pickle [ESTIMATE.json]: opens a snapshot with PyTorch’s tools'),
    'same': ('snapshot.main_same', 'TRUE.pickle OURS.pickle: where two snapshots differ'),
    'saved': ('fixtures.main_saved', 'EVENTS…: what each operator keeps for backward'),
    'results': ('fixtures.main_results', 'ROWS.jsonl… > FILE.csv: rows as a fixture'),
    'traces': ('fixtures.main_traces', 'FOLDER FILE…: events and programs as fixtures'),
    'workspaces': ('fixtures.main_workspaces', 'DEVICE MODELS: ask cuDNN about the layers of models'),
    'fit-workspaces': ('fit_workspaces.main', '[DEVICE…]: decision trees for cuDNN’s choices'),
    'layers': ('networks.main', 'OUT.jsonl.gz: convolutions of published networks'),
}


def main() -> None:
    """Hands over to the command's module, which is loaded only now: most need PyTorch."""
    name, *arguments = sys.argv[1:] or ['']
    if name not in COMMANDS:
        lines = (f'  {command:15} {about}' for command, (_, about) in COMMANDS.items())
        sys.exit('\n'.join(['usage: oracle COMMAND …', *lines]))
    module, function = COMMANDS[name][0].split('.')
    getattr(importlib.import_module(f'truth.{module}'), function)(arguments)


main()
