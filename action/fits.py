#!/usr/bin/env python3
"""Compares the memory of a training run before and after a pull request, and reports whether it still fits.

It asks `highwater estimate` about the model of the pull request and about that of its base, writes both answers, a
picture and a report into a folder, adds the report to the summary of the job, and keeps one comment on the pull
request up to date. Only Python's standard library is needed. docs/ci.md documents it.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

FITS, DOES_NOT_FIT, BAD = 0, 1, 2
# Characters with a meaning in Markdown or HTML, or at the start of a mention or a reference.
MARKUP = "\\`*_{}[]()<>#+!|~&@:"
# Characters of a comment on GitHub, less what is around the picture.
COMMENT_MAX = 60_000
TIMEOUT_S = 30


class Problem(Exception):
    """Bad use or input: what happened, and what to do."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--program", default="highwater", help="the command line of Highwater")
    parser.add_argument("--model", required=True, help="file, as the head has it, or the name of a model")
    parser.add_argument("--export", default="", help="command that writes the model file, run in each checkout")
    parser.add_argument("--settings", default="", help="flags of `highwater estimate`, such as `--batch 32`")
    parser.add_argument("--require", default="", help="GPUs on which it must fit, such as `t4,a100-40gb`")
    parser.add_argument("--require-chance", default="", help="chance in percent with which it must fit (default: 90)")
    parser.add_argument("--head", default=".", help="checkout of the pull request")
    parser.add_argument("--base", default="", help="checkout of the base branch")
    parser.add_argument("--base-result", default="", help="answer about the base as `--json` printed it, instead")
    parser.add_argument("--out", default="highwater", help="folder for the results")
    parser.add_argument("--title", default="", help="heading of the comment (default: the model's name)")
    parser.add_argument("--comment", action="store_true", help="comment on the pull request")
    parser.add_argument("--dry-run", action="store_true", help="print the comment instead of posting it")
    return parser.parse_args()


def ran(command, folder, what):
    """Runs a program; what it prints is returned."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Problem(f"{what}: cannot run `{command[0]}`: {error}") from error
    return done.returncode, done.stdout, done.stderr.strip()


def export(command, folder):
    """Runs the command that writes the model."""
    if not command:
        return
    status, _, errors = ran(["sh", "-ec", command], folder, "export")
    if status != 0:
        raise Problem(f"the command that exports the model failed in {folder} with status {status}:\n{errors}")


def devices(given):
    return [name.strip() for name in given.split(",") if name.strip()]


def estimate(given, folder, files=()):
    """The answer about the model in a checkout, whether it fits where it must, and the reasons where it does not."""
    export(given.export, folder)
    settings = shlex.split(given.settings)
    command = [given.program, "estimate", given.model, *settings, "--json", *files]
    required = devices(given.require)
    if required:
        command += ["--devices", ",".join(required)]
        for device in required:
            command += ["--require", device]
        if given.require_chance:
            command += ["--require-chance", given.require_chance]
    status, output, errors = ran(command, folder, "highwater")
    if status not in (FITS, DOES_NOT_FIT):
        raise Problem(errors or f"`{shlex.join(command)}` ended with status {status}")
    return json.loads(output), status == FITS, errors


def base_answer(given):
    """The answer about the base: a stored one, or one that is computed; none where there is no base."""
    if given.base_result:
        path = Path(given.base_result)
        try:
            answer = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Problem(f"{path}: this is no answer of `highwater estimate --json`: {error}") from error
        if not isinstance(answer, dict) or "peak" not in answer:
            raise Problem(f"{path}: this is no answer of `highwater estimate --json`: it has no `peak`")
        return answer, ""
    if not given.base:
        return None, "there is no base to compare it with"
    try:
        return estimate(given, Path(given.base).resolve())[0], ""
    except Problem as problem:
        # A pull request may add the model.
        return None, f"the base could not be estimated: {problem}"


def size(count):
    """Bytes as the command line writes them."""
    for shift, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >> shift:
            return f"{count / (1 << shift):.2f} {unit}"
    return f"{count} B"


def change(before, after):
    if before == after:
        return "no change"
    sign, amount = ("+", after - before) if after > before else ("−", before - after)
    percent = f" ({sign}{amount * 100 / before:.1f} %)" if before else ""
    return f"{sign}{size(amount)}{percent}"


def duration(step):
    """A time in picoseconds."""
    if not step:
        return None
    for power, unit in ((12, "s"), (9, "ms"), (6, "µs")):
        if step["picoseconds"] >= 10**power:
            return f"{step['picoseconds'] / 10 ** power:.3g} {unit}"
    return "0 µs"


def plain(text):
    """A text of the pull request as Markdown shows it: in one line, and nothing in it is markup, a link or a mention."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    # An entity is neither the end of a code span nor the start of a mention.
    return "".join(f"&#{ord(letter)};" if letter in MARKUP else letter for letter in text)


def fenced(text):
    """A block of code; no line of the text ends it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [fence, text.rstrip("\n"), fence]


def code(text):
    """The same in a line of text."""
    text = " ".join(text.split())
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def peaks(before, after):
    """The table of peaks."""
    lines = [row("", "before", "after", "change"), "|---|--:|--:|--:|"]
    for name, key in (("allocated at the peak", "allocated"), ("reserved", "reserved"), ("process", "process")):
        new = after["peak"][key]
        old = before and before["peak"][key]
        lines.append(row(name, size(old) if before else "–", size(new), change(old, new) if before else "–"))
    new, old = duration(after.get("step_time")), before and duration(before.get("step_time"))
    if new:
        lines.append(row("time of a step", old or "–", new, ""))
    return lines


def verdicts(before, required):
    """The table of some GPUs."""
    of_base = {device["id"]: device for device in before["devices"]} if before else {}
    lines = [
        row("GPU", "verdict before", "verdict after", "chance", "needs", "of", "largest batch before", "after"),
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for device in required:
        old = of_base.get(device["id"])
        word = "✅ " if device["passes"] else "❔ " if device["verdict"] == "not-known" else "❌ "
        lines.append(
            row(
                plain(device["name"]),
                words(old["verdict"]) if old else "–",
                word + words(device["verdict"]),
                chance(device),
                size(device["need"]),
                size(device["capacity"]),
                batch(old),
                batch(device),
            )
        )
    return lines


def verdict(device, asked):
    """How a required GPU ends, and what was asked for."""
    word = f"{plain(device['name'])} {words(device['verdict'])}"
    if device["verdict"] in ("fits", "likely-fits"):
        word += f" ({chance(device)}, and {asked['chance']} % are required)"
    return word


def words(verdict):
    return verdict.replace("-", " ")


def chance(device):
    """The chance that it fits; none is stated where it must flush its cache, or where the need is not known."""
    percent = device["chance"]
    return "–" if percent is None else "> 99 %" if percent > 99 else "< 1 %" if percent < 1 else f"{percent} %"


def batch(device):
    """The largest batch with a chance of 90 %."""
    if not device or device["max_batch"] is None:
        return "–"
    likely = device["max_batch_likely"]
    return f"{likely:,}" if likely is not None else "none"


def report(given, before, note, after, fits, reasons, plot):
    """The comment, in Markdown."""
    name = plain(given.title or after["model"]["name"])
    asked = after["require"]
    required = [device for device in after["devices"] if device["id"] in asked["devices"]]
    chosen = next(device for device in after["devices"] if device["id"] == after["config"]["device"])
    short = [device for device in required if not device["passes"]]
    if not required:
        answer = f"**{name}** needs {size(after['peak']['process'])} on {plain(chosen['name'])}."
    elif short:
        answer = f"❌ **{name}** does not pass: {'; '.join(verdict(device, asked) for device in short)}."
    else:
        on = ", ".join(f"{plain(device['name'])} ({chance(device)})" for device in required)
        answer = f"✅ **{name}** fits on {on}."
    lines = [f"### GPU memory of {name}", "", answer, "", *peaks(before, after), "", *verdicts(before, required or [chosen])]
    if note:
        lines += ["", f"There is no comparison: {plain(note.splitlines()[0])}"]
    if reasons and not fits:
        lines += ["", *fenced(reasons)]
    lines += ["", "<details><summary>Timeline</summary>", "", *fenced(plot), "", "</details>", ""]
    settings = code(given.settings) if given.settings else "the model's defaults"
    lines += [f"Settings: {settings}. Estimated by Highwater; nothing was run.", ""]
    return "\n".join(lines)


def command_text(text):
    """A text in a command of the job's log, which ends with its line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def marker(given):
    """What identifies the comment about this model, so that the next run replaces it."""
    return f"<!-- highwater: {plain(given.title or given.model)} -->"


def append(variable, text):
    """Adds a text to a file that GitHub names in a variable."""
    path = os.environ.get(variable)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def pull_request():
    """The number of the pull request, from the event that started the job."""
    path = os.environ.get("GITHUB_EVENT_PATH")
    if not path:
        return None
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Problem(f"{path}: the event of the job cannot be read: {error}") from error
    return (event.get("pull_request") or {}).get("number")


def api(method, path, body=None):
    """A request to GitHub's API."""
    address = os.environ.get("GITHUB_API_URL", "https://api.github.com") + path
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(address, data=data, method=method)
    request.add_header("Authorization", f"Bearer {os.environ.get('GITHUB_TOKEN', '')}")
    request.add_header("Accept", "application/vnd.github+json")
    if data:
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read() or b"null")


def earlier(given, repository, number):
    """The id of the comment of an earlier run."""
    page = 1
    while True:
        comments = api("GET", f"/repos/{repository}/issues/{number}/comments?per_page=100&page={page}")
        for comment in comments:
            if (comment.get("body") or "").startswith(marker(given)):
                return comment["id"]
        if len(comments) < 100:
            return None
        page += 1


def post(given, text):
    """Writes the comment, or replaces that of an earlier run. What fails is a warning: the answer stands without it."""
    number, repository = pull_request(), os.environ.get("GITHUB_REPOSITORY")
    if given.dry_run:
        print(f"The comment on pull request {number}:\n{text}")
        return
    if not number or not repository:
        print("::notice::This job is about no pull request, so there is no comment.")
        return
    try:
        known = earlier(given, repository, number)
        if known:
            api("PATCH", f"/repos/{repository}/issues/comments/{known}", {"body": text})
        else:
            api("POST", f"/repos/{repository}/issues/{number}/comments", {"body": text})
    except urllib.error.HTTPError as error:
        hint = "; give the job `permissions: pull-requests: write`" if error.code in (401, 403, 404) else ""
        print(f"::warning::The comment could not be written (status {error.code}){hint}. The summary has the report.")
    except OSError as error:
        print(f"::warning::The comment could not be written: {error}. The summary has the report.")


def main():
    given = arguments()
    out = Path(given.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        files = ["--picture", str(out / "timeline.svg"), f"--plot={out / 'timeline.txt'}", "--force"]
        after, fits, reasons = estimate(given, Path(given.head).resolve(), files)
        before, note = base_answer(given)
        plot = (out / "timeline.txt").read_text(encoding="utf-8")
        text = report(given, before, note, after, fits, reasons, plot)
        comment = f"{marker(given)}\n{text}"[:COMMENT_MAX]
        (out / "answer.json").write_text(json.dumps(after, indent=2) + "\n", encoding="utf-8")
        (out / "report.md").write_text(text, encoding="utf-8")
        append("GITHUB_STEP_SUMMARY", text)
        peak = after["peak"]
        append(
            "GITHUB_OUTPUT",
            f"fits={str(fits).lower()}\npeak-allocated={peak['allocated']}\npeak-process={peak['process']}\n"
            f"folder={out}\n",
        )
        if given.comment or given.dry_run:
            post(given, comment)
    except Problem as problem:
        print(f"::error::{command_text(str(problem))}")
        return BAD
    if not fits:
        reason = reasons.splitlines()[0].removeprefix("error: ") if reasons else "It does not fit."
        print(f"::error::{command_text(reason)}")
        return DOES_NOT_FIT
    if not given.dry_run:
        print(text)
    return FITS


if __name__ == "__main__":
    sys.exit(main())
