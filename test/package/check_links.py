#!/usr/bin/env python3
"""Checks that every relative link of the documents leads to a file, and its anchor to a heading.

    check_links.py PROJECT_DIR

Comments in sources that name a document are checked too. Addresses on the network are counted, not visited.
"""

import os
import pathlib
import re
import sys
import urllib.parse

root = pathlib.Path(sys.argv[1]).resolve()
left_out = {"build", ".git", ".cache", "node_modules"}


def files(*suffixes):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(names):
            path = pathlib.Path(folder, name)
            if path.suffix in suffixes:
                yield path


def prose(path):
    """The lines outside of code blocks, with their numbers; code spans are blanked."""
    fence = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and (fence is None or line.strip() == fence):
            fence = mark.group(1) if fence is None else None
        elif fence is None and not line.startswith("    "):
            yield number, line


def anchors(path):
    """The anchors of headings, as GitHub makes them."""
    found, seen = set(), {}
    for _, line in prose(path):
        heading = re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not heading:
            continue
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1))
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen[slug] = seen.get(slug, -1) + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


problems, links, with_anchor, elsewhere, named = [], 0, 0, 0, 0
documents = list(files(".md"))
anchors_of = {path: anchors(path) for path in documents}
for document in documents:
    for number, line in prose(document):
        line = re.sub(r"`[^`]*`", "", line)
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                elsewhere += 1
                continue
            links += 1
            name, _, anchor = target.partition("#")
            path = (document.parent / urllib.parse.unquote(name)).resolve() if name else document
            where = f"{document.relative_to(root)}:{number}"
            if not path.exists() or not path.is_relative_to(root):
                problems.append(f"{where}: there is no {target}")
            elif anchor:
                with_anchor += 1
                if anchor not in anchors_of.get(path, ()):
                    problems.append(f"{where}: {target}: that document has no such heading")

# In comments, messages and scripts: from the root of the project.
for source in files(".hpp", ".cpp", ".lua", ".sh", ".py", ".mjs", ".cmake", ".txt", ".service"):
    if source.name.endswith("_selftest.sh"):
        continue
    for number, line in enumerate(source.read_text().splitlines(), 1):
        for name in re.findall(r"\bdocs/[\w./-]+\.md\b", line):
            named += 1
            if not (root / name).exists():
                problems.append(f"{source.relative_to(root)}:{number}: there is no {name}")

# A document that no other leads to is not found by its readers.
reached, todo = set(), [root / "README.md", root / "docs/README.md"]
while todo:
    document = todo.pop()
    if document in reached or document not in anchors_of:
        continue
    reached.add(document)
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        path = (document.parent / target).resolve()
        todo += sorted(path.glob("*.md")) if path.is_dir() else [path]
for document in documents:
    if document not in reached and document.is_relative_to(root / "docs"):
        problems.append(f"{document.relative_to(root)}: no document leads to it")

if links == 0:
    problems.append(f"{root}: no links found: nothing was checked")
print("\n".join(problems))
print(f"{len(documents)} documents: {links} relative links, {with_anchor} of them to a heading; "
      f"{elsewhere} to other sites, not visited; {named} mentions of a document in sources")
sys.exit(bool(problems))
