"""How the guides become a site (`make docs`). The source is the whole tree, so that links between
folders hold."""

import re

from cyclopts.docs.markdown import generate_markdown_docs
from pygments.lexers.data import JsonLexer
from sphinx.application import Sphinx

import rods.console.main
import rods.daemon.main
import rods.family.benchmarks.main
import rods.trainer.main

project = html_title = "RODS"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["attrs_inline"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "experiments/README.md",
    "experiments/**/README.md",
    "findings/README.md",
    "runs/README.md",
    "*.md",
]
exclude_patterns = ["docs/_site", ".*", "runs/[!R]*"]
myst_heading_anchors = 4
default_role = "code"  # docstrings mark code with single backticks
autodoc_member_order = "bysource"
suppress_warnings = ["ref.python"]  # fields that are called `type` beside the annotation
html_theme = "furo"
html_copy_source = html_show_copyright = html_show_sphinx = False


def setup(app: Sphinx) -> None:
    app.add_lexer("jsonl", JsonLexer)
    app.connect("autodoc-process-docstring", literal_blocks)
    app.connect("source-read", command_lines)
    app.connect("source-read", dark_pictures)


def command_lines(app: Sphinx, page: str, source: list[str]) -> None:
    """docs/commands.md goes on with what the programs say of their own verbs and options."""
    if page == "docs/commands":
        programs = [
            each.application()
            for each in (
                rods.console.main,
                rods.trainer.main,
                rods.daemon.main,
                rods.family.benchmarks.main,
            )
        ]
        shown = [
            generate_markdown_docs(each, heading_level=2, generate_toc=False) for each in programs
        ]
        source[0] += "\n".join(shown)


def dark_pictures(app: Sphinx, page: str, source: list[str]) -> None:
    """A picture of the page over a run is shown as a dark page has it to who reads in the dark."""
    both = r"![\1](\2.png){.only-light}![\1](\2-dark.png){.only-dark}"
    source[0] = re.sub(r"!\[(.+?)\]\((\S*pictures/\w+)\.png\)", both, source[0])


def literal_blocks(
    app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    """What a docstring indents after a colon is shown as it stands."""
    for number, line in enumerate(lines[:-2]):
        if (
            line.endswith(":")
            and not line.endswith("::")
            and not lines[number + 1]
            and lines[number + 2][:1] == " "
        ):
            lines[number] = f"{line}:"
