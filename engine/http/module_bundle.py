"""The page's JavaScript modules as one script, loaded with one request or embedded in a file.

A single HTML file has nothing that `import "./text.js"` could load. Import maps of `data:` or `blob:` addresses would
do it, but the file's Content-Security-Policy would have to allow scripts from such addresses, which an attack could
use, too. One script can be allowed by its hash alone.

Each module becomes a function that is called when it is first imported and returns its exports. The statements of
imports and exports are found by their form, at the beginning of a line or after a `;`, because that is where formatters
and minifiers put them. Code that a function cannot express is an error: exports that are assigned again (`export let`),
`export * from`, and circles of imports. An `await` at the top level of a module is an error of syntax in the result. A
module may use all names but `__load` and `__loadLater`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

_NAME = r"[\w$]++"
_NAMES = rf"\{{\s*+(?:{_NAME}(?:\s++as\s++{_NAME})?\s*+,?\s*+)*+\}}"
_BEGIN = r"(?P<begin>^|;|\})[ \t]*"
_FILE = r"[\"'](?P<file>\.{1,2}/[^\"'\n]+)[\"']"
_IMPORT = re.compile(
    rf"{_BEGIN}import\s*+(?:(?P<whole>\*\s*+as\s++{_NAME}|{_NAME})?\s*+,?\s*+(?P<names>{_NAMES})?\s*+from\s*+)?{_FILE}"
    r"[ \t]*;?",
    re.MULTILINE,
)
_LATER_IMPORT = re.compile(r"\bimport\s*\(")
_EXPORTED_NAMES = re.compile(
    rf"{_BEGIN}export\s*+(?P<names>{_NAMES})(?P<source>\s*+from\s*+{_FILE})?[ \t]*;?", re.MULTILINE
)
_EXPORTED = re.compile(
    rf"{_BEGIN}export\s++(?P<what>(?:async\s++)?function\b\s*+\*?|class\b|const\b)\s*+(?P<name>{_NAME})", re.MULTILINE
)
_EXPORTED_PARTS = re.compile(
    rf"{_BEGIN}export\s++const\s*+(?P<names>\{{\s*+(?:{_NAME}(?:\s*+:\s*+{_NAME})?\s*+,?\s*+)*+\}})(?=\s*+=)",
    re.MULTILINE,
)
_EXPORTED_DEFAULT = re.compile(
    rf"{_BEGIN}export\s++default\b\s*+(?P<named>(?:(?:async\s++)?function\b\s*+\*?|class\b)\s*+(?P<name>(?!extends\b){_NAME}))?",
    re.MULTILINE,
)
_LEFT_OVER = re.compile(r"^[ \t]*(?:import\b(?![ \t]*[.(])|export\b)[^\n]*", re.MULTILINE)
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)
_END_OF_SCRIPT = re.compile(r"<(?=!--|/script)", re.IGNORECASE)
_LOADER = """\
const exportsOf = new Map();
function __load(name) {
  if (!exportsOf.has(name)) exportsOf.set(name, modules[name]());
  return exportsOf.get(name);
}
async function __loadLater(folder, file) {
  const name = new URL(file, `file:///${folder}`).pathname.slice(1);
  return name in modules ? __load(name) : import(`./${name}`);
}
"""


def bundle_modules(entry: str, sources: Mapping[str, str]) -> str:
    """Bundle all these modules into one module script that does what importing `entry` does.

    entry, sources: the path of a module below the page's folder, and the text of modules by such a path. All are part
    of the script, since `import()` may compute any name. Modules that it names and that are not given are loaded next
    to the script.

    The result contains nothing that could end the surrounding `script` element. Raises ValueError for a missing module,
    and for code that a bundle cannot express.
    """
    modules = {name: _Module(name, text) for name, text in sources.items()}
    _check_imports(entry, modules, ())
    functions = "".join(f'"{name}"() {{\n{module.body}\n}},\n' for name, module in modules.items())
    script = f'{_LOADER}const modules = {{\n{functions}}};\n__load("{entry}");\n'
    return _END_OF_SCRIPT.sub(r"\\x3c", script)


def modules_of(entry: str, sources: Mapping[str, str]) -> dict[str, str]:
    """Return `entry` and the modules that it imports, and those that they import. Raises ValueError as above."""
    found = {entry: sources[entry]}
    for name in _Module(entry, sources[entry]).imported:
        if name in sources:  # `bundle_modules` names one that is missing
            found |= modules_of(name, sources)
    return found


def _check_imports(name: str, modules: Mapping[str, _Module], importers: tuple[str, ...]) -> None:
    """Raise ValueError if a module that this one needs is missing, or imports one that is waiting for it."""
    if name in importers:
        raise ValueError(f"modules of the page import each other in a circle: {' -> '.join([*importers, name])}")
    if name not in modules:
        raise ValueError(
            f"{importers[-1] if importers else 'the page'} imports {name}, which is not a file of the page"
        )
    for imported, names in modules[name].imported.items():
        _check_imports(imported, modules, (*importers, name))
        if missing := names - modules[imported].exports.keys():
            raise ValueError(f"{name} imports {', '.join(sorted(missing))} of {imported}, which does not export it")


class _Module:
    """One module, rewritten as the body of a function that returns its exports."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self.exports: dict[str, str] = {}
        """By the exported name, the expression for it."""
        self.imported: dict[str, set[str]] = {}
        """The modules that it imports before its own first statement, and which of their exports."""
        text = _IMPORT.sub(self._import, text)
        text = _LATER_IMPORT.sub(f'__loadLater("{posixpath.dirname(name)}/", ', _SOURCE_MAP.sub("", text))
        text = _EXPORTED_NAMES.sub(self._export_names, text)
        text = _EXPORTED.sub(self._export, text)
        text = _EXPORTED_PARTS.sub(self._export_parts, text)
        text = _EXPORTED_DEFAULT.sub(self._export_default, text)
        if (left := _LEFT_OVER.search(text)) is not None:
            raise ValueError(f"{name}: a bundle cannot express `{left[0].strip()[:100]}`")
        exports = ", ".join(f'"{exported}": {local}' for exported, local in self.exports.items())
        self.body = f"{text.rstrip()}\nreturn {{ {exports} }};"

    def _import(self, found: re.Match[str]) -> str:
        file = self._resolve(found["file"])
        used = self.imported.setdefault(file, set())
        whole, names = found["whole"], found["names"]
        parts = []
        if whole is not None:
            star = re.fullmatch(rf"\*\s*as\s+({_NAME})", whole)
            used |= set() if star else {"default"}
            parts.append(star[1] if star else f"{{ default: {whole} }}")
        if names is not None:
            used |= {imported for imported, _ in _pairs(names)}
            pairs = (imported if imported == local else f"{imported}: {local}" for imported, local in _pairs(names))
            parts.append(f"{{ {', '.join(pairs)} }}")
        loads = "".join(f'const {part} = __load("{file}");' for part in parts) or f'__load("{file}");'
        return f"{found['begin']}{loads}"

    def _export_names(self, found: re.Match[str]) -> str:
        if found["source"] is None:
            self.exports |= {exported: local for local, exported in _pairs(found["names"])}
            return str(found["begin"])
        file = self._resolve(found["file"])
        self.imported.setdefault(file, set()).update(name for name, _ in _pairs(found["names"]))
        self.exports |= {exported: f'__load("{file}").{name}' for name, exported in _pairs(found["names"])}
        return f'{found["begin"]}__load("{file}");'

    def _export(self, found: re.Match[str]) -> str:
        self.exports[found["name"]] = found["name"]
        return f"{found['begin']}{found['what']} {found['name']}"

    def _export_parts(self, found: re.Match[str]) -> str:
        parts = (part.partition(":") for part in found["names"].strip()[1:-1].split(","))
        names = [(local or whole).strip() for whole, _, local in parts if whole.strip()]
        self.exports |= {name: name for name in names}
        return f"{found['begin']}const {found['names']}"

    def _export_default(self, found: re.Match[str]) -> str:
        self.exports["default"] = found["name"] or "exportedDefault"
        if found["named"] is not None:
            return f"{found['begin']}{found['named']}"
        return f"{found['begin']}const exportedDefault = "

    def _resolve(self, file: str) -> str:
        return posixpath.normpath(posixpath.join(posixpath.dirname(self._name), file))


def _pairs(names: str) -> Iterator[tuple[str, str]]:
    """Yield the names in `{ a, b as c }`, each with the name that follows `as`."""
    for part in names.strip()[1:-1].split(","):
        words = part.split()
        if words:
            yield words[0], words[-1]
