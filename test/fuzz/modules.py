# Part of the mlac project, under the Apache License v2.0 with LLVM Exceptions.
# See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutants of the modules in test/, through every pass of ours and some of MLIR's."""

import random
import re
import subprocess
import tempfile
import pathlib

import common

# Besides all of ours, which are read off mla-opt: what moves, merges and folds ops.
UPSTREAM = ["canonicalize", "cse", "control-flow-sink", "loop-invariant-code-motion", "sccp"]
# Passes with other options than the standard ones, and pipelines as the compiler runs them.
VARIANTS = [
    "convert-mla-to-tile{target=cpu}", "convert-mla-to-tile{target=sm90}",
    "mla-absorb-weights{mode=offline}", "mla-choose-form{form=expanded}",
    "mla-choose-form{form=absorbed}", "mla-share-prefix{mode=always}", "mla-split-kv{num-splits=3}",
    "mla-split-chunks{num-splits=3}",
    "tile-plan-schedules{schedule=simple}", "tile-loop-over-programs{l2-bytes=65536 side-by-side=1}",
    "convert-tile-to-sm90{schedule=simple}", "canonicalize,cse,convert-tile-to-sm90"]
# It reads a file, and has a test of its own (configs.py).
NO_PASSES = {"mla-import-config"}
BATCH = 32

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[%@^#!]?[\w$.]+|\s+|.', re.S)
NUMBERS = ["0", "1", "-1", "2", "3", "7", "8", "15", "17", "63", "64", "65", "127", "256", "257",
           "512", "1000", "4096", "65536", "2147483647", "2147483648", "-2147483648",
           "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551615"]
REALS = ["0.0", "-1.0", "1.0e+308", "1.0e-320", "0x7FC00000", "0xFF800000"]
TYPES = ["bf16", "f16", "f32", "f64", "i1", "i8", "i32", "i64", "i128", "index", "f8E4M3FN", "none"]
SHAPED = re.compile(r"(?:(?:-?\d+|\?)x)+(?:%s)" % "|".join(TYPES))


def list_passes(arguments):
    """Every pass and pipeline of this project, by what mla-opt says of itself."""
    text = subprocess.run([common.tool(arguments, "mla-opt"), "--help"], check=True,
                          capture_output=True, text=True).stdout
    ours = re.findall(r"^      --((?:mla|tile|sm90|convert|nvvm)-[\w-]+)\s", text, re.M)
    upstream = re.compile(r"convert-(?!mla|tile|sm90|nvvm)")
    known = [p for p in dict.fromkeys(ours) if p not in NO_PASSES and not upstream.match(p)]
    return known + UPSTREAM + VARIANTS


def read_seeds():
    """The pieces of all tests that hold modules: those that verify, and the others."""
    seeds, wrong = [], []
    for path in sorted((common.ROOT / "test").rglob("*.mlir")):
        for piece in re.split(r"^// -----.*$", path.read_text(), flags=re.M):
            code = "\n".join(l for l in piece.split("\n") if not l.lstrip().startswith("//"))
            if code.strip():
                (wrong if "expected-error" in piece else seeds).append(code.strip() + "\n")
    return seeds, wrong


class Mutator:
    """Changes a text in one small way after the other."""

    def __init__(self, seeds, wrong):
        self.seeds, self.wrong = seeds, wrong
        words = set()
        for seed in seeds:
            words.update(re.findall(r"\b[a-z_]\w*(?:\.\w+)*\b", seed))
        self.words = sorted(words)
        self.operations = [w for w in self.words if "." in w]

    def mutate(self, random, text):
        # By how often the result still verifies: 10 to 30 % of the cases.
        ways = [self.change_token, self.change_number, self.change_number, self.repeat_line] * 2
        ways += [self.drop_line, self.drop_attribute, self.swap_lines, self.splice]
        for _ in range(random.choice([1, 1, 1, 2, 3])):
            text = random.choice(ways)(random, text)
        return text

    def change_token(self, random, text):
        tokens = TOKEN.findall(text)
        places = [i for i, t in enumerate(tokens) if not t.isspace()]
        if not places:  # a text of one line that was dropped
            return text
        # Mostly what leaves the syntax as it is.
        mild = [i for i in places if tokens[i][0] in "%-0123456789" or tokens[i] in TYPES or
                SHAPED.fullmatch(tokens[i])]
        i = random.choice(mild if mild and random.random() < 0.85 else places)
        tokens[i] = self.replace(random, tokens[i], [tokens[j] for j in places])
        return "".join(tokens)

    def replace(self, random, token, others):
        if re.fullmatch(r"-?\d+", token):
            step = random.choice([-1, 1, 8, int(token)])
            return random.choice([*NUMBERS, str(int(token) + step)])
        if re.fullmatch(r"-?\d+\.\d+.*", token):
            return random.choice(REALS)
        if SHAPED.fullmatch(token):
            parts = token.split("x")
            j = random.randrange(len(parts))
            is_type = j == len(parts) - 1
            parts[j] = random.choice(TYPES if is_type else ["?", *NUMBERS])
            return "x".join(parts)
        if token in TYPES:
            return random.choice(TYPES)
        if token[0] in "%@^":
            return random.choice([t for t in others if t[0] == token[0]])
        if token in self.operations:
            return random.choice([self.operations, others, [""]][random.randrange(3)])
        return random.choice([others, self.words, ["", "?", "}", "{", ")", "("]][random.randrange(3)])

    def drop_line(self, random, text):
        lines = text.split("\n")
        del lines[random.randrange(len(lines))]
        return "\n".join(lines)

    def repeat_line(self, random, text):
        """Under another name, or at another place."""
        lines = text.split("\n")
        line = random.choice(lines)
        line = re.sub(r"^(\s*%)(\w+)(.* = )", rf"\1\2_{random.randrange(1000)}\3", line)
        lines.insert(random.randrange(len(lines) + 1), line)
        return "\n".join(lines)

    def swap_lines(self, random, text):
        lines = text.split("\n")
        i, j = random.randrange(len(lines)), random.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]
        return "\n".join(lines)

    def drop_attribute(self, random, text):
        found = list(re.finditer(r"[\w.]+ = [^,{}<>()]+(?:<[^<>]*>)?,?\s*", text))
        if not found:
            return text
        chosen = random.choice(found)
        return text[:chosen.start()] + text[chosen.end():]

    def change_number(self, random, text):
        """Everywhere, so that types still agree."""
        numbers = re.findall(r"(?<![\w%#@.])\d+(?![\w.]*\.)", text)
        if not numbers:
            return text
        old, new = random.choice(numbers), random.choice(NUMBERS)
        return re.sub(rf"(?<![\w%#@.]){old}(?=x|\b)", new, text)

    def splice(self, random, text):
        """Lines of another module."""
        lines, other = text.split("\n"), random.choice(self.seeds).split("\n")
        first, place = random.randrange(len(other)), random.randrange(len(lines) + 1)
        lines[place:place] = other[first:first + random.randrange(1, 6)]
        return "\n".join(lines)


class Generic:
    """Modules in the generic syntax, where nothing is implied."""

    def __init__(self, arguments):
        self.opt, self.known = common.tool(arguments, "mla-opt"), {}

    def get(self, text):
        if text not in self.known:
            done = subprocess.run(
                [self.opt, "--mlir-print-op-generic", "--mlir-print-local-scope",
                 "--allow-unregistered-dialect"], input=text, capture_output=True, text=True)
            self.known[text] = done.stdout if done.returncode == 0 else text
        return self.known[text]


def make_case(seed, number, mutator, generic):
    numbers = random.Random(f"{seed}/modules/{number}")
    text = numbers.choice(mutator.wrong if numbers.random() < 0.1 else mutator.seeds)
    if numbers.random() < 0.2:
        text = generic.get(text)
    # MLIR's parser crashes on dense arrays of types without a width, in functions that are inlined
    # into the fuzzer and so look like ours.
    return re.sub(r"\barray<(?!i\d+\b|f32\b|f64\b)\w+", "array<i64", mutator.mutate(numbers, text))


def reproduce(arguments, path, name):
    opt = common.tool(arguments, "mla-opt")
    is_plain = re.fullmatch(r"[\w-]+", name)
    flags = [f"--{name}" if is_plain else f"--pass-pipeline='builtin.module({name})'"] if name else []
    return [opt, str(path), *flags, "-o", "/dev/null"]


def fuzz(arguments, report):
    fuzzer = common.tool(arguments, "mlac-pass-fuzzer")
    mutator, generic = Mutator(*read_seeds()), Generic(arguments)
    numbers = arguments.numbers
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "passes").write_text("\n".join(list_passes(arguments)) + "\n")
        for first in range(0, len(numbers), BATCH):
            batch = {}
            for number in numbers[first:first + BATCH]:
                path = folder / f"{number}.mlir"
                path.write_text(make_case(arguments.seed, number, mutator, generic))
                batch[str(path)] = number
            done = subprocess.run([fuzzer, folder / "passes", *batch], capture_output=True, text=True)
            lines = done.stdout.splitlines()
            for line in lines:
                if line.startswith("FAIL\t"):
                    _, path, name, why = line.split("\t")
                    report.fail(f"{batch[path]}-{name.split('{')[0]}", why, path,
                                reproduce(arguments, path, name))
            summary = re.findall(r"([\w ]+?) (\d+)(?: |$)", lines[-1]) if lines else []
            if not summary:
                raise SystemExit(f"{fuzzer} ended with {done.returncode}: {done.stderr}")
            for what, count in summary:
                report.counts[what] = report.counts.get(what, 0) + int(count)
            for path in batch:
                pathlib.Path(path).unlink()
