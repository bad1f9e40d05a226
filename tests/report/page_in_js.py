"""Runs a report's own script in an embedded JavaScript engine."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import quickjs

VOID = {"meta", "link", "input", "br", "img", "hr", "rect", "line", "circle", "path"}


class Tree(HTMLParser):
    """Nested [tag, attributes, children]; refuses tags that do not close each other."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root: list[Any] = ["root", {}, []]
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node: list[Any] = [tag, {k: v or "" for k, v in attrs}, []]
        self.open[-1][2].append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1][2].append([tag, {k: v or "" for k, v in attrs}, []])

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}>, {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1][2].append(data)


def parse(text: str) -> list[Any]:
    """The top nodes of a page or a part of one."""
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert len(tree.open) == 1, f"<{tree.open[-1][0]}> is never closed"
    return tree.root[2]


def nodes(tree: list[Any], tag: str | None = None) -> list[list[Any]]:
    """All elements below, of one tag if given, in document order."""
    found = []
    for node in tree:
        if isinstance(node, list):
            if tag in (None, node[0]):
                found.append(node)
            found += nodes(node[2], tag)
    return found


def text_of(node: Any) -> str:
    """All the text of an element."""
    return node if isinstance(node, str) else "".join(text_of(child) for child in node[2])


class Page:
    """A report, opened: its script has run on its own document."""

    def __init__(self, html: str) -> None:
        tree = parse(html)
        self.tree = tree
        self.context = quickjs.Context()
        self.context.add_callable("parseHtml", lambda text: json.dumps(parse(text)))
        self.context.eval((Path(__file__).parent / "dom.js").read_text())
        self.context.set("PAGE", html)
        self.context.eval("setUp(PAGE)")
        scripts = [n for n in nodes(tree, "script") if "type" not in n[1]]
        assert len(scripts) == 1
        self.context.eval(text_of(scripts[0]))

    def __call__(self, expression: str) -> Any:
        """Value of an expression, through JSON."""
        value = self.context.eval(f"JSON.stringify({expression})")
        return None if value is None else json.loads(value)
