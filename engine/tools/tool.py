"""A tool: a function with a JSON schema and a kind. The loop decides by the kind alone.

    @tool
    async def read_file(path: str) -> str:
        "Read a text file."

    @tool(kind="completion")
    def submit(report: str) -> str:
        "Hand in the report. Call this once, when it is finished."
        return report

The JSON schema comes from the type hints, descriptions of arguments from the docstring (Google, NumPy, reST or
Epydoc style). Sync functions run in a thread. A tool is of kind `ordinary` by default and is assumed to change things;
`reads=True` says that it does not, so that it may run in parallel and while the response still streams.

A completion tool whose author forgot the kind would be called again and again. So if `kind` is left out, the mark
`[COMPLETION SIGNAL]` in the description makes a completion tool, and a name or a result type which says that the tool
ends the task is refused. `kind="ordinary"` says that it does not.

A function that yields reports its progress: see `call_progress.py`.

A decorated function is still called as before, in tests and in other code: `await read_file("notes.txt")`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property, partial, update_wrapper
from typing import Any, Generic, TypeVar, cast, get_args, overload

import docstring_parser

from ..decision import Policy, ToolKind, ToolSpec, WrongUse
from ..decision.errors import WrongCall, did_you_mean, function_name, wrong_name
from ..decision.messages import is_blank
from ..decision.tool_names import is_preset_name, kind_by_name
from ..decision.transcript import tools_size
from ..decision.wrong_calls import checked, explained
from ..providers.surrogate_pairs import with_whole_characters
from .call_progress import last_item
from .function_roles import check_callable, check_functions, is_generator, signature_of, without_types
from .not_tools import not_a_tool
from .results import consume_iterators, contains_iterator, promised_type, returns_report
from .run_context import context_parameter, deps_type, model_parameters, with_context
from .schema import InvalidArguments, SchemaArguments, SignatureArguments
from .side_effects import has_side_effects
from .user_functions import call_user_function

Function = Callable[..., Any]
Approval = bool | Callable[[Mapping[str, Any]], bool]
F = TypeVar("F", bound=Function)
F_co = TypeVar("F_co", covariant=True)
COMPLETION_MARK = "[COMPLETION SIGNAL]"
"""Beginning of the description of every completion tool."""
TOOL_TIMEOUT = 120.0
"""Default timeout of a call, in seconds."""


@checked
class Tool:
    """A function that a model may call.

    kind: `ordinary`, `completion`, `question` or `think`. If it is left out: `completion` if the description has the
    mark `[COMPLETION SIGNAL]`, otherwise `ordinary`.
    reads: calls only read: they may start while the response still streams, and be run again after a crash.
    polls: the tool is meant to be called repeatedly with the same result, which is not counted as repetition.
    completes: an ordinary tool may also return a Completion, a Phase or a Continue.
    parallel: calls may change something and still run at the same time as each other and as those of other parallel
    tools.
    timeout: seconds for one call, None for no limit; a call that takes longer gets an error as its result.
    final: whether a completion with these arguments can end the run; by default `completion_percentage` must not be
    below 100.
    parameters: a JSON schema in place of the type hints; the function then gets plain JSON values.
    approval: whether a call needs the user's approval before it runs: True, or a function of the arguments.
    check: called with the same arguments if the process died during a call. It returns `Happened(result)`,
    `NotHappened()`, after which the call is run, or `Unclear()`. Calls of a reading tool are simply run again.

    Raises WrongUse for a function or options that cannot work, and if the kind is left out for a tool that ends the
    task by its name (`task_done`, `finish_task`, `attempt_completion`) or by its result type (`Completion`, ...).
    """

    kind_advice = "write kind='completion', or kind='ordinary' if it does not"
    """Advice for a tool without a kind that seems to end the task."""
    kind_given = True
    """Whether its author gave the kind. If not, a result that says that the task is complete is logged as a mistake."""

    def __init__(
        self,
        function: Function,
        *,
        name: str | None = None,
        description: str | None = None,
        kind: ToolKind | None = None,
        reads: bool = False,
        polls: bool = False,
        completes: bool = False,
        parallel: bool = False,
        timeout: float | None = TOOL_TIMEOUT,
        final: Callable[[Mapping[str, Any]], bool] | None = None,
        parameters: Mapping[str, Any] | None = None,
        check: Function | None = None,
        approval: Approval = False,
    ) -> None:
        _check(function, kind, timeout)
        named = _without_partial(function)
        described = docstring_parser.parse(inspect.getdoc(named) or "")
        self._about = description or _description_of(described)
        self.kind_given = kind is not None or completes
        if kind is None:
            kind = "ordinary" if completes else default_kind(self._about)
        if isinstance(check, Tool):
            raise WrongUse(
                f"check: {check!r} is a tool; a check is not a function that a model calls: take @tool off it"
            )
        if check is not None:
            check_callable("check", check)
        check_functions(final=final)
        _check_approval(function, kind, approval)
        update_wrapper(self, function, updated=())  # the signature, name and docstring, for `help` and for tests
        self.function = function
        self.check = check
        """Function that tells, after the process died during a call, whether the call took effect. May be None."""
        self.approval = approval
        """Whether a call needs the user's approval, or a function of its arguments that tells."""
        self.folder: str | None = None
        """For a tool of a workspace: the folder that it works in."""
        self.inner: Toolbox | None = None
        """For a tool that is a sub-agent: the sub-agent's tools."""
        self.timeout = timeout
        self._final = final or _full_percentage
        self.name = name or str(getattr(named, "__name__", type(named).__name__))
        """Name by which the model calls it."""
        if kind == "question" and not reads and has_side_effects(function):
            raise WrongUse(
                f"tool {self.name!r} of kind 'question' has a body that acts: its body only gives the text of the "
                "question (`return question`), and the answer comes once the run has paused. Put what is to be done "
                "into a tool of kind 'ordinary'; if the body changes nothing, say so with reads=True"
            )
        if parallel and (kind != "ordinary" or completes):
            raise WrongUse(f"tool {self.name!r}: parallel=True is for tools of kind 'ordinary' that do not complete")
        self.kind: ToolKind = kind
        """Kind, by which the loop decides how to treat a call; see `ToolKind`."""
        if not self._about:
            raise WrongUse(f"tool {self.name!r} has no description: give it a docstring or description=...")
        self._check_missing_kind()
        if kind == "completion" and COMPLETION_MARK not in self._about:
            self._about = f"{COMPLETION_MARK} {self._about}"
        notes = {param.arg_name: param.description for param in described.params if param.description}
        self.docstring_warning = _unknown_arguments(self.name, notes, function)
        """Warning to log at the start if the docstring describes an argument that the function lacks; else empty."""
        self._arguments = (
            SignatureArguments(function, self.name, notes)
            if parameters is None
            else SchemaArguments(function, self.name, parameters)
        )
        if check is not None:
            known = model_parameters(function) if parameters is None else self._arguments.schema["properties"]
            _check_check(check, self.name, known)
        self.deps_type = deps_type(function)
        """Class of the dependencies that the function takes (`RunContext[Deps]`); None: any, or none."""
        self._reads = reads or kind in ("think", "question", "blocked")
        self._polls = polls
        self._completes = completes
        self._parallel = parallel

    def _check_missing_kind(self) -> None:
        """Raise WrongUse if the kind was left out and the name or the result type says that the tool ends the task."""
        if self.kind_given or self.kind != "ordinary":
            return
        if is_preset_name(self.name):
            raise WrongUse(
                f"tool {self.name!r} has no kind, and its name says that it ends the task: {self.kind_advice}"
            )
        if reported := returns_report(self.function):
            raise WrongUse(
                f"tool {self.name!r} has no kind, and returns {reported}, which only a tool that may end the task "
                "returns: write kind='completion', or completes=True if it does other work as well"
            )

    @property
    def _usual_name(self) -> str:
        """The name that its author gave it."""
        return self.name

    @property
    def kind_warning(self) -> str:
        """Warning to log at the start if the kind was left out and the name is a completion tool's; otherwise empty."""
        if self.kind_given or self.kind != "ordinary" or kind_by_name(self._usual_name) != "completion":
            return ""
        return f"tool {self.name!r} has no kind, and by its name it may end the task: {self.kind_advice}"

    @cached_property
    def spec(self) -> ToolSpec:
        """The description for the model and the record. Raises WrongUse if a type hint has no schema."""
        spec = ToolSpec(
            name=self.name,
            description=self._about,
            parameters=self._arguments.schema,
            kind=self.kind,
            reads=self._reads,
            polls=self._polls,
            completes=self._completes,
            parallel=self._parallel,
            approval=self.approval is not False,
        )
        return with_whole_characters(spec)

    @property
    def __call__(self) -> Any:
        """The function itself: a call of the tool outside a run. Nothing is validated, limited or recorded."""
        return self.function

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, kind={self.kind!r})"

    def renamed(self, name: str) -> Tool:
        """Return a copy of the tool with another name. Raises WrongUse for a name that requires a kind; see `Tool`."""
        other = copy(self)
        other.name = name
        other._check_missing_kind()
        other.__dict__.pop("spec", None)
        return other

    def parse(self, arguments: str) -> dict[str, Any]:
        """Parse and validate the arguments that a model wrote. Raises InvalidArguments with a text for the model.

        A completion whose required texts are all blank is invalid, because it says nothing about the work.
        """
        parsed = self._arguments.parse(arguments)
        texts = self._texts
        if texts and all(isinstance(parsed.get(name), str) and is_blank(parsed[name]) for name in texts):
            raise InvalidArguments(f"{self.name}: {' and '.join(texts)} is empty: say in it what was done")
        return parsed

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """Names of the required text arguments of a completion tool."""
        if self.kind != "completion":
            return ()
        schema = self._arguments.schema
        members = schema.get("properties", {})
        return tuple(name for name in schema.get("required", ()) if members.get(name, {}).get("type") == "string")

    @cached_property
    def promised_type(self) -> str:
        """Return type that the function is annotated with, for a warning about a result of None.

        Empty if None is expected: for a generator, without an annotation, and with one that allows None.
        """
        return "" if self._is_generator else promised_type(self.function)

    @cached_property
    def _context_parameter(self) -> str | None:
        return context_parameter(self.function)

    @cached_property
    def _is_generator(self) -> bool:
        return is_generator(self.function)

    def is_final(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether a completion with these arguments can be the last one."""
        return self._final(arguments)

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function. A sync one runs in a thread; if the call is cancelled, its late result is dropped.

        Items that a generator yields are reported as progress (`call_progress.py`). Other iterators in the result are
        also consumed in a thread, because they may block or never end.
        """
        value = await call_user_function(self.function, **with_context(self._context_parameter, arguments))
        if inspect.isasyncgen(value) or self._is_generator:
            value = await call_user_function(last_item, value)
        return await call_user_function(consume_iterators, value) if contains_iterator(value) else value


class FunctionTool(Tool, Generic[F_co]):
    """A tool made by `@tool`. Type checkers know how its function is called.

    It is generic in the whole function, not in arguments and result, so that `[one, other]` is a list of tools.
    """

    @property
    def __call__(self) -> F_co:
        """The function itself."""
        return cast(F_co, self.function)


TOOL_OPTIONS = tuple(inspect.signature(Tool).parameters)[1:]
"""Names of the options of `tool` and `Tool`."""


@overload
def tool(function: F, /) -> FunctionTool[F]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    kind: ToolKind | None = None,
    reads: bool = False,
    polls: bool = False,
    completes: bool = False,
    parallel: bool = False,
    timeout: float | None = TOOL_TIMEOUT,
    final: Callable[[Mapping[str, Any]], bool] | None = None,
    parameters: Mapping[str, Any] | None = None,
    check: Function | None = None,
    approval: Approval = False,
) -> Callable[[F], FunctionTool[F]]: ...


@explained
def tool(function: Function | None = None, /, **options: Any) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a function, as a decorator: `@tool`, or `@tool(reads=True)`. Raises WrongUse.

    name, description: in place of those of the function and its docstring.
    kind: `ordinary`, `completion`, `question` or `think`.
    reads: a call changes nothing. polls: the same result again is expected. parallel: calls may run at the same time.
    completes: it may also return a Completion, a Phase or a Continue.
    timeout: seconds for one call. approval: whether a call needs the user's approval, or a function of the arguments.
    parameters: a JSON schema in place of the type hints. final, check: see `Tool`, which has all of this at length.
    """
    for option in options:
        if option not in TOOL_OPTIONS:
            raise WrongCall(f"tool has no option {option!r}{wrong_name('tool', option, TOOL_OPTIONS)}")
    if isinstance(function, str):
        raise WrongUse(f"tool({function!r}) is given a text: write @tool(name={function!r})")
    if function is None:
        return lambda made: FunctionTool(made, **options)
    return FunctionTool(function, **options)


def default_kind(description: str) -> ToolKind:
    """Return the kind of a tool without a given kind: `completion` if the description has the completion mark."""
    return "completion" if COMPLETION_MARK in description else "ordinary"


def _unknown_arguments(tool: str, described: Iterable[str], function: Any) -> str:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return ""
    unknown = [name.lstrip("*") for name in described if name.lstrip("*") not in parameters]
    if not unknown:
        return ""
    hint = did_you_mean(unknown[0], parameters)
    return f"tool {tool!r}: its docstring describes {unknown[0]!r}, which is no argument of its function{hint}"


def _without_partial(function: Any) -> Any:
    """Return the function in a `functools.partial`, which has no name and docstring of its own."""
    while isinstance(function, partial):
        function = function.func
    return function


def _check(function: Any, kind: Any, timeout: Any) -> None:
    """Raise WrongUse for a function that no model can call, and for invalid options."""
    if isinstance(function, Tool):
        raise WrongUse(f"{function!r} is already a tool: pass it on as it is, or under another name with renamed(...)")
    if not callable(function):
        raise WrongUse(f"{function!r} is not a function: put @tool on a function")
    name = function_name(function)
    if kind is not None and kind not in get_args(ToolKind):
        raise WrongUse(f"tool {name!r}: unknown kind {kind!r}{did_you_mean(str(kind), get_args(ToolKind))}")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise WrongUse(f"tool {name!r}: timeout is {timeout!r}: use seconds above 0, or None for no timeout")
    if inspect.isfunction(function) and next(iter(inspect.signature(function).parameters), "") in ("self", "cls"):
        raise WrongUse(
            f"tool {name!r} is a method, and a model cannot fill its first argument: "
            f"make the tool of a method that is bound, as in tool(thing.{name})"
        )


def _check_check(check: Function, tool: str, arguments: Iterable[str]) -> None:
    """Raise WrongUse unless the check of a tool can be called with the tool's arguments, by their names."""
    signature = signature_of(check)
    if signature is None:
        return
    context = context_parameter(check)
    names = [*arguments, *([] if context is None else [context])]
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise WrongUse(
            f"check: {function_name(check)}{without_types(signature)}: {error}; it is called with the arguments of "
            f"tool {tool!r}, by name: {', '.join(names) or 'none'}"
        ) from None


def _check_approval(function: Any, kind: ToolKind, approval: Any) -> None:
    name = function_name(function)
    if not isinstance(approval, bool):
        check_functions(approval=approval)
        if approval is None:
            raise WrongUse(f"tool {name!r}: approval is None: use True, False or a function of the arguments")
    if approval is not False and kind != "ordinary":
        raise WrongUse(
            f"tool {name!r} of kind {kind!r} cannot have an approval: only calls that do work wait for one, which are "
            "those of kind 'ordinary'. To ask the user before a completion counts, return Completion(confirm=...)"
        )


def _full_percentage(arguments: Mapping[str, Any]) -> bool:
    percentage = arguments.get("completion_percentage", 100)
    return not isinstance(percentage, int | float) or percentage >= 100


def _description_of(described: docstring_parser.Docstring) -> str:
    return "\n\n".join(part for part in (described.short_description, described.long_description) if part)


@checked
class Toolbox(Mapping[str, Tool]):
    """Tools of an engine by name.

    tools: in the order in which the model sees them. Raises WrongUse if two have the same name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise WrongUse(not_a_tool(tool))
            if tool.name in self._tools:
                raise WrongUse(f"two tools are called {tool.name!r}: rename one, as in tool.renamed('other')")
            self._tools[tool.name] = tool
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for tool in self._tools.values())

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @cached_property
    def characters(self) -> int:
        """Approximate number of characters of all tool descriptions in a request."""
        return tools_size(self.specs)

    @cached_property
    def deps_types(self) -> Mapping[str, type]:
        """The classes of the dependencies that tools take, by the tools' names."""
        found = ((name, getattr(tool, "deps_type", None)) for name, tool in self._tools.items())
        return {name: kind for name, kind in found if kind is not None}

    @property
    def can_complete(self) -> bool:
        """Whether one of them is a completion tool."""
        return any(tool.kind == "completion" for tool in self._tools.values())

    def subset(self, names: Iterable[str]) -> Toolbox:
        """Return a toolbox with only these tools, in this order."""
        wanted = tuple(names)
        return self if wanted == tuple(self._tools) else Toolbox(self._tools[name] for name in wanted)

    def for_policy(self, policy: Policy) -> Toolbox:
        """Return the tools that this policy offers. Raises WrongUse if the policy cannot work with them."""
        if policy.completion == "none":
            return Toolbox(tool for tool in self._tools.values() if tool.kind != "completion")
        if policy.completion == "required" and not self.can_complete:
            raise WrongUse(
                f"policy {policy.name!r} ends a run only by a completion (completion = 'required'), "
                "but no completion tool is offered: add one, or choose another policy"
            )
        return self
