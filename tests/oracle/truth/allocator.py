"""PyTorch's caching allocator under every setting, call by call: `tests/fixtures/allocator`.

Each setting has a process of its own, because PyTorch reads settings once. In it, generated programs of
allocations, frees and emptied caches run on a device that other memory fills up to a chosen room.
After every call the whole state is written as a line (see `state`), and a running CRC-32 of the lines is
kept. The fixture has the program and the last byte of the sum after each call, so that a replay that
differs knows the first call that does; `oracle allocator explain` then prints the lines themselves.
"""

import ctypes
import gzip
import random
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

from truth import place

#: The fake device knows no processes: PyTorch lists empty ones, as many as it has room for.
NO_PROCESS = re.compile(r'Process 0 has 0 bytes memory in use\. ')
MIB = 1 << 20
#: SIZE: of the device; what a program may not use of it is taken beforehand.
DEVICE = 1 << 30
#: SIZE: what a program may use.
ROOMS = [60 * MIB, 104 * MIB, 202 * MIB, 450 * MIB, DEVICE]
#: COUNT: programs of one setting, and most calls of one.
PROGRAMS, CALLS = 56, 110

#: Name of the fixture, `PYTORCH_CUDA_ALLOC_CONF`, and a fraction of the device to stay within.
SETTINGS: dict[str, tuple[str, float | None]] = {
    'default': ('', None),
    'max_split_21': ('max_split_size_mb:21', None),
    'max_split_40': ('max_split_size_mb:40', None),
    'max_split_64_rounding_30': ('max_split_size_mb:64,max_non_split_rounding_mb:30', None),
    'rounding_100': ('max_non_split_rounding_mb:100,max_split_size_mb:32', None),
    'power2_1': ('roundup_power2_divisions:1', None),
    'power2_2': ('roundup_power2_divisions:2', None),
    'power2_8': ('roundup_power2_divisions:8', None),
    'power2_list': ('roundup_power2_divisions:[2:1,8:4,32:2,>:8]', None),
    'power2_gap': ('roundup_power2_divisions:[4:2,64:16]', None),
    'power2_max_split': ('roundup_power2_divisions:4,max_split_size_mb:24', None),
    'fraction': ('', 0.1),
    'fraction_setting': ('per_process_memory_fraction:0.15', None),
    'throw_early': ('per_process_memory_fraction:0.15,throw_on_cudamalloc_oom:True', None),
    'throw_no_fraction': ('throw_on_cudamalloc_oom:True', None),
    'collect_without_fraction': ('garbage_collection_threshold:0.3', None),
    'collect_60': ('garbage_collection_threshold:0.6', 0.2),
    'collect_20': ('garbage_collection_threshold:0.2', 0.9),
    'collect_setting': ('garbage_collection_threshold:0.5,per_process_memory_fraction:0.25', None),
    'collect_max_split': ('garbage_collection_threshold:0.4,max_split_size_mb:30', 0.3),
    'segment_11': ('large_segment_size_mb:11', None),
    'segment_64': ('large_segment_size_mb:64', None),
    'segment_12_max_split': ('large_segment_size_mb:12,max_split_size_mb:26', None),
    'expandable': ('expandable_segments:True', None),
    'expandable_power2': ('expandable_segments:True,roundup_power2_divisions:4', None),
    'expandable_max_split': ('expandable_segments:True,max_split_size_mb:48', None),
    'expandable_fraction': ('expandable_segments:True', 0.12),
    'expandable_collect': ('expandable_segments:True,garbage_collection_threshold:0.4', 0.3),
    'expandable_segment_32': ('expandable_segments:True,large_segment_size_mb:32', None),
    'expandable_segment_14': ('expandable_segments:True,large_segment_size_mb:14', None),
    'expandable_throw': (
        'expandable_segments:True,throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.2',
        None,
    ),
    'streams': ('', None),
    'streams_max_split': ('max_split_size_mb:24', None),
    'streams_collect': ('garbage_collection_threshold:0.4', 0.3),
    'streams_expandable': ('expandable_segments:True', None),
    'streams_expandable_fraction': ('expandable_segments:True,per_process_memory_fraction:0.2', None),
    'many': (
        'max_split_size_mb:50,roundup_power2_divisions:[1:2,16:4,>:1],'
        'garbage_collection_threshold:0.7,large_segment_size_mb:24',
        0.5,
    ),
}
#: COUNT: streams that programs of settings whose names begin so allocate on, by turns.
STREAMS = {'streams': 3}
#: Statistics in the order in which a line has them.
STATISTICS = [
    'allocation',
    'segment',
    'active',
    'inactive_split',
    'allocated_bytes',
    'reserved_bytes',
    'active_bytes',
    'inactive_split_bytes',
    'requested_bytes',
]
COUNTS = ['num_alloc_retries', 'num_ooms', 'num_oom_rejections', 'num_device_alloc', 'num_device_free']
#: SIZE: where the rules change.
BOUNDARIES = [512, MIB, 2 * MIB, 9 * MIB, 10 * MIB, 19 * MIB, 20 * MIB, 21 * MIB, 24 * MIB]
BOUNDARIES += [30 * MIB, 40 * MIB, 48 * MIB, 64 * MIB]
KINDS = ('small', 'mixed', 'middle', 'large', 'boundary', 'training', 'training')


#: Recorded runs of `fixtures/traces/training` that are run again under every setting.
RUNS = ('resnet18_b8_adamw', 'distilgpt2_b4_sgd', 'vgg16_b8_adamw', 'squeezenet1_1_b8_adamw')


def main(arguments: list[str]) -> None:
    """`oracle allocator [SETTING…]`, `… training`, `… refused`, `… explain SETTING PROGRAM`, `… speed`"""
    match arguments:
        case ['explain', setting, _]:
            start(setting, arguments, DEVICE)
        case ['refused']:
            start('default', arguments, DEVICE)
        case ['speed']:
            speed()
        case ['training']:
            path = place.FIXTURES / 'allocator/training.txt'
            alone = [setting for setting in SETTINGS if streams_of(setting) == 1]
            path.write_text(''.join(start(setting, arguments, 80 << 30) for setting in alone))
        case _:
            for setting in arguments or SETTINGS:
                start(setting, ['record'], DEVICE)


def start(setting: str, what: list[str], memory: int) -> str:
    """This module again, in a process that has the setting; what it prints."""
    environment = place.on_fake_device('a100', None, None)
    environment['FAKECUDA_MEMORY'] = str(memory)
    environment['PYTORCH_CUDA_ALLOC_CONF'] = SETTINGS[setting][0]
    # PyTorch warns each time that the driver has no more, which is what happens here all the time.
    environment['TORCH_CPP_LOG_LEVEL'] = 'ERROR'
    command = [sys.executable, '-m', 'truth.allocator', setting, *what]
    out = subprocess.PIPE if what[0] == 'training' else None
    return subprocess.run(command, env=environment, check=True, text=True, stdout=out).stdout


def program(rng: random.Random) -> tuple[list[int], int, float]:
    """Sizes that a program allocates, its room, and how often it allocates rather than frees."""
    kind = rng.choice(KINDS)
    sizes = sorted({size(rng, kind) for _ in range(rng.randint(3, 16))})
    return sizes, rng.choice(ROOMS), rng.choice([0.5, 0.55, 0.62, 0.75])


def size(rng: random.Random, kind: str) -> int:
    """SIZE: one allocation."""
    if kind == 'mixed':
        kind = rng.choice([other for other in KINDS if other != 'mixed'])
    match kind:
        case 'small':
            return rng.randint(1, MIB)
        case 'middle':
            return rng.randint(MIB, 12 * MIB)
        case 'large':
            return rng.randint(8 * MIB, 90 * MIB)
        case 'boundary':
            off = rng.choice([-MIB, -513, -512, -1, 0, 1, 511, 512, 513, MIB, MIB + 512])
            return max(1, rng.choice(BOUNDARIES) + off)
        case _:
            return int(2 ** rng.uniform(5, 26.5))


class Machine:
    """PyTorch's allocator, and what was got from it."""

    def __init__(self, fraction: float | None, streams: int = 1) -> None:
        import torch

        self.torch = torch
        self.cuda = ctypes.CDLL(str(place.LIBRARIES / 'libcuda.so.1'))
        torch.cuda.init()
        torch.cuda.current_stream()
        if fraction is not None:
            torch.cuda.set_per_process_memory_fraction(fraction)
        self.streams = [torch.cuda.current_stream()]
        self.streams += [torch.cuda.Stream() for _ in range(streams - 1)]
        self.stream = 0
        self.live: list[int] = []
        self.taken = ctypes.c_void_p()
        self.base: int | None = None

    def begin(self, room: int) -> None:
        """Gives everything back and leaves so much room on the device."""
        torch = self.torch
        for address in self.live:
            torch.cuda.caching_allocator_delete(address)
        self.live, self.base, self.stream = [], None, 0
        torch.cuda.empty_cache()
        if self.taken.value:
            self.cuda.cudaFree(self.taken)
        # A range of addresses in which nothing could be mapped goes only once something was.
        for stream in self.streams:
            for bytes_ in (1, 2 * MIB):
                address = torch.cuda.caching_allocator_alloc(bytes_, stream=stream)
                torch.cuda.caching_allocator_delete(address)
        torch.cuda.empty_cache()
        self.taken = ctypes.c_void_p()
        total = torch.cuda.mem_get_info()[1]
        if room < total:
            assert self.cuda.cudaMalloc(ctypes.byref(self.taken), ctypes.c_size_t(total - room)) == 0
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()

    def alloc(self, bytes_: int) -> str:
        """What came of it."""
        try:
            stream = self.streams[self.stream]
            address = self.torch.cuda.caching_allocator_alloc(bytes_, stream=stream)
        except self.torch.OutOfMemoryError as error:
            return NO_PROCESS.sub('', str(error))
        self.live.append(address)
        self.base = address if self.base is None else self.base
        return str(address - self.base)

    def free(self, index: int) -> None:
        """Frees a live allocation."""
        self.torch.cuda.caching_allocator_delete(self.live.pop(index))

    def statistics(self) -> str:
        """All of `memory_stats`."""
        stats = self.torch._C._cuda_memoryStats(0)
        words = []
        for pool in ('all', 'small_pool', 'large_pool'):
            for name in STATISTICS:
                one = stats[name][pool]
                words.append(f'{one["current"]},{one["peak"]}')
        for name in ('oversize_allocations', 'oversize_segments'):
            words.append(f'{stats[name]["current"]},{stats[name]["peak"]}')
        words += [str(stats[name]) for name in COUNTS]
        return ' '.join(words)

    def blocks(self) -> str:
        """All segments: pool, address from that of the first allocation, size, and the blocks."""
        words = []
        snapshot = self.torch._C._cuda_memorySnapshot(None)['segments']
        for segment in sorted(snapshot, key=lambda segment: segment['address']):
            words.append(
                f'{segment["segment_type"][0]}{segment["address"] - (self.base or 0)}'
                f':{segment["total_size"]}'
            )
            for block in segment['blocks']:
                allocated = block['state'] == 'active_allocated'
                words.append(f'{block["size"]}/{block["requested_size"]}' if allocated else f'-{block["size"]}')
        return ' '.join(words)

    def state(self, said: str) -> str:
        """The line after a call."""
        return f'{said}|{self.blocks()}|{self.statistics()}\n'


#: Letters of a free: so many from the newest, or from the oldest.
NEWEST, OLDEST = 'abcdefghijklmnopqrstuvwxyz', '0123456789'


def choose(
    rng: random.Random, sizes: list[int], chance: float, live: int, streams: int
) -> str:
    """The next call: the letter of a size, of a free, or of another call."""
    if streams > 1 and rng.random() < 0.2:
        return '>'
    dice = rng.random()
    if dice < 0.012:
        return '!'
    if dice < 0.018:
        return '^'
    if not live or rng.random() < chance:
        return chr(ord('A') + rng.randrange(len(sizes)))
    if rng.random() < 0.3:
        return OLDEST[rng.randrange(min(live, len(OLDEST)))]
    return NEWEST[rng.randrange(min(live, len(NEWEST)))]


def call(machine: Machine, letter: str, sizes: list[int]) -> str:
    """Runs one call; what came of it."""
    if letter == '!':
        machine.torch.cuda.empty_cache()
    elif letter == '>':
        machine.stream = (machine.stream + 1) % len(machine.streams)
    elif letter == '^':
        machine.torch.cuda.reset_peak_memory_stats()
    elif letter in NEWEST:
        machine.free(len(machine.live) - 1 - NEWEST.index(letter))
    elif letter in OLDEST:
        machine.free(OLDEST.index(letter))
    else:
        return machine.alloc(sizes[ord(letter) - ord('A')])
    return letter


def run(machine: Machine, rng: random.Random, explain: bool) -> list[str]:
    """One program: its sizes, its calls, and what the sums were."""
    sizes, room, chance = program(rng)
    machine.begin(room)
    calls, sums, sum_ = '', '', 0
    for _ in range(rng.randint(20, CALLS)):
        letter = choose(rng, sizes, chance, len(machine.live), len(machine.streams))
        try:
            line = machine.state(call(machine, letter, sizes))
        except RuntimeError as error:
            # PyTorch's own assertion failed: what follows is nobody's rule.
            print('stopped at', letter, str(error).splitlines()[0], file=sys.stderr)
            raise
        sum_ = zlib.crc32(line.encode(), sum_)
        calls, sums = calls + letter, f'{sums}{sum_ & 255:02x}'
        if explain:
            print(len(calls) - 1, letter, line, end='')
    return [f'{room} {" ".join(map(str, sizes))}', calls, f'{sums} {sum_:08x}']


def streams_of(name: str) -> int:
    """COUNT: streams of a setting's programs."""
    return STREAMS.get(name.partition('_')[0], 1)


def record(name: str) -> None:
    """Writes the fixture of a setting."""
    conf, fraction = SETTINGS[name]
    machine, rng = Machine(fraction, streams_of(name)), random.Random(name)
    total = machine.torch.cuda.mem_get_info()[1]
    lines = [f'{conf or "-"} {fraction or "-"} {total}']
    for _ in range(PROGRAMS):
        lines += run(machine, rng, explain=False)
    pack(f'{name}.txt.gz', lines)


def pack(name: str, lines: list[str]) -> None:
    """Writes a fixture; the same lines give the same bytes."""
    path = place.FIXTURES / 'allocator' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(''.join(f'{line}\n' for line in lines).encode(), 9, mtime=0))


def explain(name: str, number: int) -> None:
    """Prints every line of one program."""
    machine, rng = Machine(SETTINGS[name][1], streams_of(name)), random.Random(name)
    for index in range(number + 1):
        run(machine, rng, explain=index == number)


def train(name: str) -> None:
    """Prints the sum over every address of recorded runs, and the state at each iteration."""
    machine = Machine(SETTINGS[name][1])
    total = machine.torch.cuda.mem_get_info()[1]
    for run_ in RUNS:
        machine.begin(total)
        made: list[int | None] = []
        sum_ = 0
        path = place.FIXTURES / f'traces/training/{run_}.txt.gz'
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            word, _, rest = line.partition(' ')
            text = ''
            if word == 'a':
                said = machine.alloc(int(rest.split()[0]))
                made.append(machine.live[-1] if said.isdigit() else None)
                text = f'{said} ' if said.isdigit() else 'no '
            elif word == 'f' and (address := made[int(rest)]) is not None:
                machine.live.remove(address)
                machine.torch.cuda.caching_allocator_delete(address)
            elif word == 'i':
                text = machine.state('')
            sum_ = zlib.crc32(text.encode(), sum_)
        sum_ = zlib.crc32(machine.state('').encode(), sum_)
        print(name, run_, total, f'{sum_:08x}')


def speed() -> None:
    """Events per second of the recorded runs: PyTorch's allocator, driven from C++, and ours."""
    paths = sorted((place.FIXTURES / 'traces/training').glob('*.gz'))
    command = ['cargo', 'run', '--quiet', '--release', '-p', 'highwater-core']
    command += ['--example', 'tools', '--', 'replay', *map(str, paths)]
    theirs, ours = [], []
    # By turns, so that what else the machine does falls on both.
    for _ in range(3):
        theirs.append(float(start('default', ['training', 'speed'], 80 << 30)))
        said = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
        ours.append(float(re.search(r'all recordings .* ([0-9.]+) million/s', said)[1]))
    print(f'PyTorch {max(theirs):.2f}, ours {max(ours):.2f} million events/s: {max(ours) / max(theirs):.1f} times')


def drive() -> None:
    """Prints PyTorch's million events per second, each run as fast as in its fastest round."""
    import torch

    torch.cuda.init()
    library = ctypes.CDLL(str(place.LIBRARIES / 'drive.so'))
    library.drive.restype = ctypes.c_double
    events, elapsed = 0, 0.0
    for path in sorted((place.FIXTURES / 'traces/training').glob('*.gz')):
        calls = []
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            match line.split():
                case ['a', size, *_]:
                    calls.append(int(size))
                case ['f', number]:
                    calls.append(-int(number) - 1)
        row = (ctypes.c_int64 * len(calls))(*calls)
        elapsed += min(library.drive(row, ctypes.c_size_t(len(calls))) for _ in range(20))
        events += len(calls)
        torch.cuda.empty_cache()
    print(events / elapsed * 1e3)


#: Texts that PyTorch is asked to take as settings.
TEXTS = """
    max_split_size_mb:20|max_split_size_mb:19|max_split_size_mb:21
    max_split_size_mb:30,large_segment_size_mb:40|large_segment_size_mb:40,max_split_size_mb:30
    large_segment_size_mb:12,max_split_size_mb:15|large_segment_size_mb:10|large_segment_size_mb:11
    large_segment_size_mb:1000000000000000|max_split_size_mb:64MB|max_split_size_mb:many
    max_split_size_mb|max_split_size_mb:|max_split_size_mb:-1|max_split_size_mb:+64
    max_split_size_mb:--64|max_split_size_mb:99999999999999999999|max_split_size_mb:17592186044417
    max_split_size_mb=64|max_split_size_mb,64|max_split_size_mb:64;expandable_segments:True
    max_split_size_mb:[64]|max_non_split_rounding_mb:19|max_non_split_rounding_mb:20
    large_segment_size_mb:12,max_non_split_rounding_mb:13|large_segment_size_mb:32,max_non_split_rounding_mb:30
    garbage_collection_threshold:0|garbage_collection_threshold:1|garbage_collection_threshold:0.8x
    garbage_collection_threshold:.5|garbage_collection_threshold:5e-1|garbage_collection_threshold:-0.5
    garbage_collection_threshold:nan|garbage_collection_threshold:half|garbage_collection_threshold:inf
    expandable_segments:True|expandable_segments:False|expandable_segments:true|expandable_segments:1
    expandable_segments: True , max_split_size_mb : 64|roundup_power2_divisions:4
    roundup_power2_divisions:0|roundup_power2_divisions:1|roundup_power2_divisions:3
    roundup_power2_divisions:[256:1,512:2,1024:4,>:8]|roundup_power2_divisions:[256:1,512:2,1024:4,>:8
    roundup_power2_divisions:[3:1]|roundup_power2_divisions:[4:3]|roundup_power2_divisions:[4:0]
    roundup_power2_divisions:[4]|roundup_power2_divisions:[]|roundup_power2_divisions:[>:4]
    roundup_power2_divisions:[0:4]|roundup_power2_divisions:[4:2,,8:2]|roundup_power2_divisions:[4:2 8:2]
    roundup_power2_divisions:[4:2],max_split_size_mb:64|roundup_power2_divisions:[131072:4]
    roundup_power2_divisions:[4:2,>:8,16:4]|per_process_memory_fraction:0.5
    per_process_memory_fraction:1.5|per_process_memory_fraction:0|per_process_memory_fraction:-1
    throw_on_cudamalloc_oom:True|throw_on_cudamalloc_oom:yes|expandable_segments_reserve:0.5
    expandable_segments_reserve:40G|expandable_segments_reserve:much
    expandable_segments_reserve_by_class:[a:0.5,b:2G]|expandable_segments_reserve_by_class:[a:0.5
    expandable_segments_reserve_by_class:0.5|backend:native|backend:mine
    release_lock_on_cudamalloc:True|release_lock_on_hipmalloc:False|release_lock_on_cudamalloc:0
    pinned_use_cuda_host_register:True|pinned_use_background_threads:True|pinned_use_background_threads:no
    pinned_num_register_threads:8|pinned_num_register_threads:6|pinned_num_register_threads:256
    pinned_num_register_threads:0|pinned_reserve_segment_size_mb:0|pinned_reserve_segment_size_mb:64
    pinned_max_round_threshold_mb:64|pinned_max_round_threshold_mb:0|pinned_max_cached_size_mb:64
    pinned_max_cached_size_mb:0|pinned_max_cached_size_mb:x|pinned_free_catch_all:True
    graph_capture_record_stream_reuse:True|expandable_segments_handle_type:posix_fd|no_such:1|no_such
    ,|:|max_split_size_mb:64,|,max_split_size_mb:64|max_split_size_mb:64,,expandable_segments:True
    max_split_size_mb:64 expandable_segments:True|max_split_size_mb::64|max_split_size_mb:64:
"""


def refused() -> None:
    """Writes which texts PyTorch takes, and what it says of the others."""
    import torch

    lines = []
    for text in (text.strip() for line in TEXTS.strip().splitlines() for text in line.split('|')):
        try:
            torch._C._accelerator_setAllocatorSettings(text)
            lines.append(f'+ {text}')
        except (RuntimeError, ValueError, IndexError) as error:
            said = str(error).splitlines()[0]
            lines.append(f'- {text} | {"an assertion of its own" if "ASSERT" in said else said}')
        # Sizes of segments stay from one text to the next.
        torch._C._accelerator_setAllocatorSettings('large_segment_size_mb:20')
    path = place.FIXTURES / 'allocator/settings.txt'
    path.write_text(''.join(f'{line}\n' for line in lines))


if __name__ == '__main__':
    name, *rest = sys.argv[1:]
    match rest:
        case ['explain', _, number]:
            explain(name, int(number))
        case ['training', 'speed']:
            drive()
        case ['training']:
            train(name)
        case ['refused']:
            refused()
        case _:
            record(name)
