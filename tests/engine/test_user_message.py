"""Prompts of texts and images: what is refused at once, what the model gets, and what the record keeps."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, Image, RecordOptions, Redaction, Task, WrongUse, read_record
from endstop.decision import Message, Policy, UserMessage
from endstop.decision import events as ev
from endstop.decision.transcript import IMAGE_CHARACTERS, message_size
from endstop.formats import events_of
from endstop.formats.openai import sessions
from endstop.hooks import Prepare, Progress
from endstop.providers import Scripted, call
from endstop.records.event_redaction import redact_file
from endstop.records.scan import scan
from endstop.replay import replay
from endstop.user_message import MAX_IMAGE_BYTES, MEDIA_TYPES, media_type_of, user_message

from .test_compaction import FETCH, Model, policy
from .test_fork import decisions, finish
from .test_resume import Script, check, eventful, killed_after

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
GIF = b"GIF89a" + bytes(20)
WEBP = b"RIFF\x20\0\0\0WEBP" + bytes(20)
LARGE = PNG + bytes(300_000)
THERE = Image(url="https://example.com/a.png?size=2")


class Seeing:
    """A model that answers `ok`, and the messages of its requests."""

    def __init__(self) -> None:
        self.requests: list[list[Message]] = []

    def engine(self, **options: Any) -> Engine:
        return Engine(Scripted(self._answer), system="", **options)

    def _answer(self, request: Any) -> str:
        self.requests.append(list(request.messages))
        return "ok"


# ---- what a prompt may be


async def test_a_prompt_holds_texts_bytes_files_and_urls_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "b.jpg").write_bytes(JPEG)
    seeing = Seeing()
    await seeing.engine().run(["Compare", Image(PNG), "with", tmp_path / "b.jpg", "and", THERE])
    ((message,),) = seeing.requests
    assert isinstance(message, UserMessage)
    assert message.text == (
        "Compare\n[image 1: image/png, 28 bytes]\nwith\n[image 2: image/jpeg, 24 bytes]\nand\n"
        "[image 3: https://example.com/a.png?size=2]"
    )
    assert message.parts == ("Compare", Image(PNG), "with", Image(JPEG, "image/jpeg"), "and", THERE)


@pytest.mark.parametrize(("data", "kind"), [*zip((PNG, JPEG, GIF, WEBP), MEDIA_TYPES, strict=True)])
def test_the_media_type_is_what_the_bytes_say_whatever_the_name(data: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(data)
    assert media_type_of(data) == kind
    assert user_message([path]).images == (Image(data, kind),)
    assert user_message([Image(data, "image/bmp")]).images == (Image(data, kind),)


def test_a_data_url_becomes_bytes() -> None:
    given = Image(url=f"data:image/png;base64,{b64encode(GIF).decode()}")
    assert user_message([given]).images == (Image(GIF, "image/gif"),)


def test_an_image_alone_is_a_prompt_and_texts_alone_are_a_text() -> None:
    assert user_message([Image(PNG)]).images == (Image(PNG),)
    assert user_message(["a", " ", "b"]) == UserMessage("a\nb")
    assert user_message(UserMessage("a")) == UserMessage("a")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Image(), "prompt[1]: the image is empty"),
        (Image(b"BM" + bytes(20)),
         "prompt[1]: these 22 bytes are not an image of a known type: convert it to png, jpeg"),
        (Image(b"%PDF-1.7"), "prompt[1]: these 8 bytes are not an image of a known type"),
        (Image(url="ftp://example.com/a.png"), "prompt[1]: 'ftp://example.com/a.png' is not the URL of an image"),
        (Image(url="/etc/passwd"), "prompt[1]: '/etc/passwd' is not the URL of an image"),
        (Image(url="https://example.com/a b.png"), "prompt[1]: 'https://example.com/a b.png' is not the URL"),
        (Image(url="https://exa[mple/a.png"), "prompt[1]: 'https://exa[mple/a.png' is not a valid URL"),
        (Image(url="https://example.com:x/a.png"), "prompt[1]: 'https://example.com:x/a.png' is not a valid URL"),
        (Image(url="https://me:secret@example.com/a"),
         "prompt[1]: the URL 'https://***@example.com/a' contains a login"),
        (Image(url="data:image/png,abc"), "prompt[1]: the data URL is not valid base64"),
        (Path("/nowhere/a.png"), "prompt[1]: cannot read /nowhere/a.png: No such file or directory"),
        (PNG, "prompt[1] is b'"),
        ({"role": "user"}, "prompt[1] is {'role': 'user'}, of type dict: a conversation so far is not the prompt"),
        (None, "prompt[1] is None"),
    ],
)  # fmt: skip
async def test_a_part_that_no_provider_could_read_is_refused_at_once(part: Any, why: str, tmp_path: Path) -> None:
    seeing = Seeing()
    for begin in (seeing.engine().run, seeing.engine().session().run):
        with pytest.raises(WrongUse) as refused:
            await begin(["Look", part])
        assert str(refused.value).startswith(why)
    assert seeing.requests == []


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "localhost.", "a.localhost", "printer.local", "db.internal", "redis", "127.0.0.1"),
        *("127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "10.1.2.3", "192.168.1.1", "172.16.0.1"),
        *("169.254.169.254", "100.64.0.1", "[::1]", "[::ffff:127.0.0.1]", "[fd00::1]", "[fe80::1]", "[::]"),
    ],
)
def test_a_url_of_this_host_or_a_private_network_is_refused(host: str) -> None:
    with pytest.raises(WrongUse, match="on this host or in a private network"):
        user_message([Image(url=f"http://{host}/a.png")])


@pytest.mark.parametrize(
    "host", ["example.com", "8.8.8.8", "[2606:4700::1111]", "localhost.example.com", "1.example.com"]
)
def test_any_other_url_is_passed_on_and_never_fetched(host: str) -> None:
    image = Image(url=f"https://{host}:8443/a.png")
    assert user_message([image]).images == (image,)


def test_images_of_one_prompt_have_a_bound_together_and_a_large_file_is_not_read(tmp_path: Path) -> None:
    half = PNG + bytes(MAX_IMAGE_BYTES // 2 - len(PNG))
    assert len(user_message([Image(half), Image(half)]).images) == 2
    with pytest.raises(WrongUse, match="the images of the prompt have 20,971,521 bytes"):
        user_message([Image(half), Image(half + b"1")])
    path = tmp_path / "large.png"
    with path.open("wb") as file:
        file.truncate(MAX_IMAGE_BYTES + 1)
    with pytest.raises(WrongUse, match=r"prompt\[0\]: .*large.png is larger than 20,971,520 bytes"):
        user_message([path])


def test_an_image_counts_in_estimates_as_much_as_one_of_a_result() -> None:
    assert message_size(UserMessage("four", (Image(PNG), THERE))) == 4 + 2 * IMAGE_CHARACTERS


# ---- in a run


async def test_the_record_has_the_images_large_ones_in_files_and_replays(tmp_path: Path) -> None:
    path, seeing = tmp_path / "r.jsonl", Seeing()
    session = seeing.engine().session(record=path)
    await session.run(["What?", Image(PNG), Image(LARGE), THERE])
    started = read_record(path).runs[0].started
    assert started.images == (Image(PNG), Image(LARGE), THERE)
    assert len(list((tmp_path / "r.files").iterdir())) == 1
    assert len(path.read_bytes()) < 100_000
    assert (await replay(path)).same
    (first, *_) = scan(path, attachments=True)
    assert isinstance(first, ev.RunStarted)
    assert first.images == started.images
    loaded = seeing.engine().session()
    loaded.load(read_record(path).runs)
    assert loaded.messages() == session.messages()
    for file in (tmp_path / "r.files").iterdir():
        file.unlink()
    record = read_record(path)
    assert record.runs[0].started.images == (Image(PNG), THERE)
    assert len(record.missing) == 1


async def test_a_run_with_images_killed_after_any_of_its_events_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    script, options = eventful()
    expected = await script.engine(0, **options).run(["go", Image(PNG), THERE], record=whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    (unbroken,) = read_record(whole).runs
    for kept in range(2, len(lines), 4):
        where = f"killed after line {kept} of {len(lines)}"
        again, options = eventful()
        outcome, session = await killed_after(path, lines[:kept], again, options)
        (said,) = (m for m in session.messages() if isinstance(m, UserMessage) and m.images)
        assert said.parts == ("go", Image(PNG), THERE), where
        (run,) = read_record(path).runs
        check(run.events, session, unbroken.started.run_id, where)
        assert outcome.status == expected.status, where


async def test_a_fork_keeps_the_images_or_has_those_of_its_own_prompt(tmp_path: Path) -> None:
    origin = tmp_path / "origin.jsonl"
    script = Script([call("read", path="a", id="r1")], [call("finish_task", summary="done", id="end")])
    stepwise = Policy(max_inner_steps=1)
    await script.engine(0, policy=stepwise).run(["go", Image(LARGE)], record=origin)
    at = decisions(origin)[0].seq
    prompts: list[Any] = [None, ["rather", THERE], "neither"]
    for number, prompt in enumerate(prompts):
        other = Script(*[[call("finish_task", summary="forked", id="end")]] * 2).engine(1, policy=stepwise)
        path = tmp_path / f"{number}.jsonl"
        forked = script.engine(0).session(record=origin).fork(at=at, engine=other, prompt=prompt, record=path)
        assert (await finish(forked)).answer == "forked"
        kept = read_record(path).runs[0].started.images
        assert kept == ((Image(LARGE),), (THERE,), ())[number]
        assert (await replay(path)).same


async def test_a_url_is_redacted_as_texts_are_and_a_redacted_copy_keeps_the_images(tmp_path: Path) -> None:
    path, copy = tmp_path / "r.jsonl", tmp_path / "copy.jsonl"
    secret = "sk-proj-" + "Ab1" * 16
    url = Image(url=f"https://example.com/a.png?key={secret}")
    seeing = Seeing()
    await seeing.engine(record_options=RecordOptions(redact=Redaction())).run(["go", url, Image(LARGE)], record=path)
    assert secret in str(seeing.requests[0])
    assert secret.encode() not in path.read_bytes()
    assert (await replay(path)).same
    await seeing.engine().run(["go", url, Image(LARGE)], record=tmp_path / "plain.jsonl")
    redact_file(tmp_path / "plain.jsonl", copy, Redaction())
    assert secret.encode() not in copy.read_bytes()
    assert read_record(copy).runs[0].started.images[1] == Image(LARGE)


async def test_a_prompt_handler_and_the_views_have_the_marks_in_the_place_of_the_images() -> None:
    heard: list[str] = []

    def handler(prompt: str, run: Progress) -> Prepare:
        heard.append(prompt)
        return Prepare()

    await Seeing().engine(hooks=Hooks(prompt_handlers=[handler])).run(["What?", Image(PNG)])
    assert heard == ["What?\n[image 1: image/png, 28 bytes]"]


async def test_a_compaction_that_keeps_the_prompt_keeps_its_images_in_one_file(tmp_path: Path) -> None:
    path, image = tmp_path / "r.jsonl", Image(PNG + bytes(1000))
    engine = Engine(
        Scripted(Model(8)),
        tools=[FETCH],
        policy=policy("drop_oldest", window=8000),
        record_options=RecordOptions(attach_above=500),
    )
    session = engine.session(record=path)
    await session.run(["go", image])
    compacted = [event for event in read_record(path).runs[0].events if isinstance(event, ev.ContextCompacted)]
    assert UserMessage.of(["go", image]) in [message for event in compacted for message in event.put_first]
    assert UserMessage.of(["go", image]) in session.messages()
    assert path.read_bytes().count(b"attached:") == 1 + len(compacted)
    assert (await replay(path)).same


async def test_a_race_and_a_batch_take_images_and_name_the_task_whose_prompt_is_wrong() -> None:
    one, two = Seeing(), Seeing()
    providers = [one.engine().config.provider, two.engine().config.provider]
    race = await one.engine().race(["What?", Image(PNG)], providers, compare=True)
    assert [result.outcome.answer for result in race.results] == ["ok", "ok"]
    assert one.requests[0][-1] == two.requests[0][-1] == UserMessage.of(["What?", Image(PNG)])
    async with one.engine().run_many([Task(["What?", THERE])]) as fleet:
        results = [result async for result in fleet]
    assert [result.outcome.answer for result in results] == ["ok"]
    with pytest.raises(WrongUse, match=r"prompt\[0\]: the image is empty"):
        one.engine().run_many([Task([Image()])])


def test_an_imported_session_keeps_the_images_of_its_prompts() -> None:
    content = [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": THERE.url}}]
    (session,) = sessions([{"role": "user", "content": content}, {"role": "assistant", "content": "Nice."}])
    started = events_of(session, "s", "openai")[0]
    assert isinstance(started, ev.RunStarted)
    assert (started.prompt, started.images) == (f"Look\n[image 1: {THERE.url}]", (THERE,))
    assert "image" not in session.losses
