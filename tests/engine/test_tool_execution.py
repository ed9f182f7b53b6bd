"""Who a call is."""

import pytest
from endstop import Engine, Hooks, RunContext, this_call, tool
from endstop.decision import WrongUse
from endstop.providers import Scripted, call


def test_outside_of_a_call_there_is_none() -> None:
    with pytest.raises(WrongUse, match="while a call of it runs"):
        this_call()


async def test_each_of_several_calls_at_once_finds_itself_and_a_gate_finds_none() -> None:
    found: list[RunContext] = []

    @tool(reads=True)
    async def look(path: str) -> str:
        """Look."""
        found.append(this_call())
        return path

    def gate(completion: object, run: object) -> bool:
        with pytest.raises(WrongUse):
            this_call()
        return True

    calls = [call("look", path="a", id="a"), call("look", path="b", id="b")]
    session = Engine(Scripted(calls, "done"), tools=[look], hooks=Hooks(gates=[gate])).session("the session")
    async with session.start("go") as run:
        assert (await run.wait()).status == "completed"
    assert found == [RunContext("the session", run.id, 1, "a"), RunContext("the session", run.id, 1, "b")]
    assert [one.key for one in found] == [f"{run.id}/1/a", f"{run.id}/1/b"]
    assert not found[0].again
