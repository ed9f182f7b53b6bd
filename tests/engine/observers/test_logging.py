"""The log of a run's landmarks."""

from endstop import Engine, Observers
from endstop.decision import Policy
from endstop.observers import log_run
from endstop.providers import RateLimited, Scripted, call, say

from ...captured_logs import capture_logs


async def test_landmarks_are_logged_and_the_models_text_is_not() -> None:
    engine = Engine(
        Scripted([say("secret text"), call("nobody")], RateLimited("slow")), observers=Observers(subscribers=[log_run])
    )
    with capture_logs() as logs:
        outcome = await engine.run("secret prompt")
    assert [line["event"] for line in logs] == [
        "run started",
        "tool call not ok",
        "attempt failed",
        "decided",
        "run finished",
    ]
    assert {line["run_id"] for line in logs} == {outcome.run_id}
    assert logs[0]["policy"] == Policy().name
    assert "secret" not in str(logs)
