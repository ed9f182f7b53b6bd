"""Parts of an engine, built from command-line options: provider, tools, policy, gates, prompt.

Options that cannot work raise WrongUse before any request is made.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from ..base.version import __version__
from ..check_answers import check_shell
from ..decision import POLICIES, Policy, Price, WrongUse, policy_from
from ..decision.errors import did_you_mean, error_text
from ..decision.events import RunStarted
from ..decision.policy_files import Fitted, fitted_from
from ..decision.until_rules import policy_for_until
from ..evaluation import CommandEvaluator
from ..hooks import CommandGate
from ..providers import Prices, Provider, Retry, Timeouts
from ..providers.model_names import provider_for
from ..providers.timeouts import BETWEEN_SECONDS, FIRST_SECONDS
from ..records.qualified_names import current_module
from ..tools import ask_user, finish_task
from ..tools.tool import Tool
from ..tools.workspace import workspace_tools
from ..tools.yaml import tools_from_yaml
from ..until_settings import UntilSettings, until_settings_from


def build_provider(
    model: str | None,
    api_base: str | None,
    provider: str | None,
    *,
    first: float = FIRST_SECONDS,
    between: float = BETWEEN_SECONDS,
) -> Provider:
    """Return the provider for `--model`, `--api-base` and `--provider`.

    Its timeouts are `--first-timeout` and `--content-timeout`.
    """
    for option, seconds in (("--first-timeout", first), ("--content-timeout", between)):
        if not seconds > 0:
            raise WrongUse(f"{option} is {seconds:g}: use seconds above 0")
    if not model or not model.strip():
        raise WrongUse(
            "no model: give one with --model, as in --model anthropic/claude-sonnet-4-5, "
            "or --model NAME --api-base http://localhost:8000/v1 for your own endpoint"
        )
    if api_base is not None and not api_base.strip():
        raise WrongUse("--api-base is empty: give a URL such as http://host:port/v1")
    return provider_for(model, api_base, provider, first=first, between=between)


RETRIES = 2
"""Default of `--retries`: how often a request is repeated after a temporary error."""


def with_retries(provider: Provider, retries: int, seconds: float | None, provider_wait: float = 0.0) -> Provider:
    """Wrap the provider as `--retries`, `--response-timeout` and `--wait-for-provider` ask."""
    if retries < 0:
        raise WrongUse(f"--retries is {retries}: use 0 or more")
    if not 0 <= provider_wait < inf:
        raise WrongUse(f"--wait-for-provider is {provider_wait:g}: use seconds from 0 on")
    if seconds is not None and not seconds > 0:
        raise WrongUse(f"--response-timeout is {seconds:g}: use seconds above 0")
    bounded = provider
    if seconds is not None:
        bounded = Timeouts(provider, connect=None, first=None, between=None, total=seconds)
    return Retry(bounded, times=retries, provider_wait=provider_wait) if retries or provider_wait else bounded


def build_prices(price: str | None, provider: Provider, recorded: RunStarted | None) -> Prices:
    """Return the model's prices.

    They come from `--price IN,OUT[,CACHED]`, else from the record to resume, else from the lists.
    """
    if price is None:
        if recorded is None or recorded.endpoint != getattr(provider, "endpoint", ""):
            return Prices()
        return Prices(recorded.prices)
    try:
        each_input, each_output, *cached = map(float, price.split(","))
        (each_cached,) = cached or (None,)
        return Prices({provider.model: Price(input=each_input, output=each_output, cached=each_cached)})
    except ValueError:
        raise WrongUse(f"--price {price}: write IN,OUT or IN,OUT,CACHED, in US dollars per million tokens") from None


def load_policy(name: str, *, closing: bool = False) -> Policy:
    """Return the policy for `--policy NAME|FILE`. closing: whether to make a closing step, unless the file sets it."""
    return load_fitted_policy(name, closing=closing)[0]


def load_fitted_policy(name: str, *, closing: bool = False) -> tuple[Policy, Fitted | None]:
    """Return the policy, and the guarantee that `endstop fit` gave for it; None if it was not fitted."""
    if name in POLICIES:
        return replace(POLICIES[name], closing=closing), None
    data = _read_policy_file(name)
    data.setdefault("name", Path(name).stem)
    data.setdefault("closing", closing)
    data.pop("until", None)  # `load_until` reads it
    return policy_from(data, where=name), fitted_from(data, name) if "fitted" in data else None


def load_until(name: str | None) -> UntilSettings | None:
    """Return the table `until` of a policy file; None for a shipped policy or a file without one. Raises WrongUse."""
    if name is None or name in POLICIES:
        return None
    table = _read_policy_file(name).get("until")
    return None if table is None else until_settings_from(table, f"{name}, [until]")


def load_policy_of_runs(name: str) -> Policy:
    """Return the policy as runs under this file have it: with the rule and the guard of its check, if it has one."""
    policy = load_policy(name, closing=True)
    return policy if load_until(name) is None else policy_for_until(policy)


def with_limits(policy: Policy, max_steps: int | None, max_tokens: int | None = None, *, closing: bool) -> Policy:
    """Return the policy with `--max-steps`, `--max-tokens` and `--no-closing` applied."""
    if max_tokens is not None:
        if max_tokens < 1:
            raise WrongUse(f"--max-tokens is {max_tokens}: use 1 or more")
        policy = replace(policy, response_tokens=max_tokens)
    if not closing and policy.closing:
        policy = replace(policy, closing=False)
    if max_steps is None:
        return policy
    if max_steps < 1:
        raise WrongUse(f"--max-steps is {max_steps}: use 1 or more")
    try:
        return replace(policy, limits=policy.limits.with_steps(max_steps))
    except WrongUse as error:
        raise WrongUse(f"--max-steps {max_steps} with policy {policy.name!r}: {error}") from None


def load_tools(places: Iterable[str]) -> list[Tool]:
    """Return all tools in these Python files, modules and YAML files, in the order of their definition."""
    found: dict[int, Tool] = {}
    for place in places:
        here = _load_tools_from(place)
        if not here:
            raise WrongUse(f"--tools {place}: it defines no tools; put @tool on the functions that the model may call")
        found.update((id(tool), tool) for tool in here)
    return list(found.values())


def load_object(option: str, place: str | None) -> Any:
    """Load the object of `--deps FILE:NAME` or `--output-type FILE:NAME`; None without the option."""
    if place is None:
        return None
    module, _, name = place.rpartition(":")
    if not module or not name:
        raise WrongUse(f"{option} {place}: write FILE:NAME, as in {option} tools.py:name")
    found = getattr(_import_module(module, option), name, None)
    if found is None:
        raise WrongUse(f"{option} {place}: there is no {name!r} in {module}")
    return found


def build_gates(commands: Iterable[str], folder: str | None, env: Sequence[str]) -> list[CommandGate]:
    """Return the gates for `--gate CMD`; they run in the workspace if there is one."""
    gates = []
    for command in commands:
        if not command.strip():
            raise WrongUse("--gate is empty: give a command, as in --gate 'pytest -q'")
        check_shell(command, "--gate")
        gates.append(CommandGate(command, folder, env=env))
    return gates


def build_evaluator(
    command: str | None, workspace: str | None, reference: str | None, plain: str | None = None
) -> CommandEvaluator | None:
    """Return the evaluator for `--evaluate CMD` or `--evaluate-plain CMD`, and `--reference-workspace DIR`."""
    if reference is not None and not Path(reference).is_dir():
        raise WrongUse(f"--reference-workspace {reference}: no such folder")
    if plain is not None:
        if command is not None:
            raise WrongUse("--evaluate and --evaluate-plain cannot be combined: give one of them")
        if not plain.strip():
            raise WrongUse("--evaluate-plain is empty: give a command, as in --evaluate-plain 'grep -q 8080 a.ini'")
        check_shell(plain, "--evaluate-plain")
        return CommandEvaluator(plain, workspace=workspace, reference=reference, plain=True)
    if command is None:
        if reference is not None:
            raise WrongUse("--reference-workspace needs an evaluation: give its command with --evaluate CMD")
        return None
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise WrongUse(f"--evaluate {command!r} is not a valid command: {error}") from None
    if not words:
        raise WrongUse("--evaluate is empty: give a command, as in --evaluate 'python check.py'")
    if shutil.which(words[0]) is None:
        raise WrongUse(f"--evaluate {command!r}: command not found: {words[0]!r}")
    return CommandEvaluator(command, workspace=workspace, reference=reference)


def preset_tools(tools: Iterable[Tool], wanted: bool, *, asks: bool = True) -> list[Tool]:
    """Return the preset tools to offer; a user's tool replaces the preset of the same name.

    asks: whether to offer the tool that asks the user.
    """
    if not wanted:
        return []
    taken = {tool.name for tool in tools}
    return [preset for preset in (finish_task, ask_user) if preset.name not in taken and (asks or preset != ask_user)]


def build_workspace_tools(folder: str | None, allow_run: bool, env: Sequence[str] = ()) -> list[Tool]:
    """Return the workspace tools for `--workspace`, `--allow-run` and `--env`."""
    for name in env:
        if not name or "=" in name:
            raise WrongUse(f"--env {name}: give only the name of a variable, as in --env DATABASE_URL")
    if folder is None:
        if allow_run:
            raise WrongUse("--allow-run needs a workspace: give it with --workspace DIR")
        return []
    return list(workspace_tools(folder, allow_run=allow_run, env=env))


def read_prompt(prompt: str | None, command: str = "run") -> str:
    """Return the prompt from the command line, or from stdin unless that is a terminal."""
    if prompt is None or prompt == "-":
        if sys.stdin is None or (prompt is None and sys.stdin.isatty()):
            raise WrongUse(f'no prompt: give it as in endstop {command} "...", or pipe it in')
        text = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    else:
        text = os.fsencode(prompt).decode("utf-8", "replace")
    if not text.strip():
        raise WrongUse("the prompt is empty")
    return text.strip("\n")


def check_record(record: str | None, drain: bool) -> None:
    """Refuse a `--record` that cannot be written. A record is one session, so a file that has content is refused."""
    if record is None:
        if drain:
            raise WrongUse("--drain reads the rest of cut responses into the record: add --record FILE")
        return
    path = Path(record)
    if path.is_dir():
        raise WrongUse(f"--record {record} is a folder: give a file in it")
    if path.is_file() and path.stat().st_size > 0:
        raise WrongUse(f"--record {record} already exists, and a record holds one session: give another file")


def _read_policy_file(name: str) -> dict[str, Any]:
    """Return the data of a policy file. Raises WrongUse if it cannot be read or was fitted by a newer endstop."""
    if not name.strip():
        raise WrongUse(f"--policy is empty: give one of {', '.join(POLICIES)}, or a TOML file")
    path = Path(name)
    if path.is_dir():
        raise WrongUse(f"--policy {name} is a folder: give a TOML file in it")
    if not path.is_file():
        if path.suffix == ".toml" or os.sep in name:
            raise WrongUse(f"--policy {name}: no such file")
        raise WrongUse(f"--policy {name}: neither a policy{did_you_mean(name, POLICIES)} nor a TOML file")
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise WrongUse(f"--policy {name} is not a TOML file: it is not UTF-8 text") from None
    except ValueError as error:  # TOMLDecodeError, or a number with more digits than Python reads
        raise WrongUse(f"--policy {name} is not valid TOML: {error}") from None
    except RecursionError:
        raise WrongUse(f"--policy {name} is not a policy: its values are nested too deeply") from None
    except OSError as error:
        raise WrongUse(f"--policy {name} cannot be read: {error.strerror}") from None
    _check_fitted_version(name, data)
    return data


def _check_fitted_version(name: str, data: dict[str, Any]) -> None:
    """Raise WrongUse for a policy that a newer endstop fitted: its guards may stop runs elsewhere than ours do."""
    fitted = data.get("fitted")
    made = str(fitted.get("version", "")) if isinstance(fitted, dict) else ""
    if _version_numbers(made) > _version_numbers(__version__):
        raise WrongUse(
            f"--policy {name}: it was fitted by endstop {made}, and this is {__version__}: upgrade, or delete the "
            "table [fitted], which then guarantees nothing"
        )


def _version_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: (0, 1, 0) for `0.1.0rc1`."""
    numbers = re.match(r"[\d.]*", version)
    return tuple(map(int, re.findall(r"\d+", numbers[0]))) if numbers is not None else ()


def _load_tools_from(place: str) -> list[Tool]:
    if Path(place).suffix in (".yaml", ".yml"):
        try:
            return tools_from_yaml(place)
        except WrongUse as error:
            raise WrongUse(f"--tools {error}") from None
    return [value for value in vars(_import_module(place)).values() if isinstance(value, Tool)]


def _import_module(place: str, option: str = "--tools") -> ModuleType:
    path = Path(place)
    try:
        if path.suffix == ".py" or path.is_file():
            return _module_from_file(path)
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(current_module(place))
        finally:
            sys.path.remove(os.getcwd())
    except WrongUse as error:
        raise WrongUse(f"{option} {place}: {error}") from None
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise WrongUse(f"{option} {place}: neither a Python file nor an importable module") from None
        raise WrongUse(f"{option} {place}: it imports a module that is not installed: {error.name}") from None
    except (Exception, SystemExit) as error:
        raise WrongUse(f"{option} {place} cannot be imported: {error_text(error)}{_error_location(error)}") from None


def _module_from_file(path: Path) -> ModuleType:
    """Load a file as a module that can import modules from its folder. Several options may name the same file."""
    if not path.is_file():
        raise WrongUse("no such file")
    name = f"endstop_tools_{path.stem}"
    known = sys.modules.get(name)
    if known is not None and known.__file__ == str(path.resolve()):
        return known
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise WrongUse("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _error_location(error: BaseException) -> str:
    """Return the file and line where the user's code raised the error."""
    traceback = error.__traceback__
    place = ""
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if not name.startswith("<") and name != __file__ and "importlib" not in name:
            place = f" ({os.path.basename(name)}, line {traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place
