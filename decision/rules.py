"""The decision rules as a table, in order of priority from P0 to P3. The first rule that applies decides.

P0 is the exception: it adds to the decision of a later rule instead of replacing it. A context that is too large is
compacted before the *next* request, so a finished run is never compacted.

P0.5 and P1 can each end a finished run without the other: P0.5 because a completion was accepted, P1 because the step
was cut short (`cut_by`). P1 trusts a finish reason only where it matches the message: providers report `stop` with
calls, and `tool_calls` without any. P2 looks at the message alone and decides those.

Whether a plain answer ends the run is decided in one place, `decide_on_text`, which P1 and P2 share. The user's own
text rule comes first, then the filter for short texts that only echo an instruction, then what the text is
(`text_kinds.py`): a question to the user, or an announcement after a tool call; then the policy. Where every response
has to call a tool (`tool_choice="required"`) and a completion tool is offered, plain text is no end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from .decisions import Decision, GoOn, Pause, Stop
from .facts import Facts
from .finish_words import describe_finish_word
from .policy import Echo, Policy

LONGEST_WORD = 80
"""Most characters of a finish word that a message shows."""


class Rule(Struct, frozen=True):
    """One decision rule, or one guard."""

    priority: str
    name: str
    says: str
    """What the rule does, in a sentence for people; the tables in the docs are made from it."""
    sees: tuple[str, ...]
    """Names of the facts that it looks at; their values go into the trace."""
    judge: Callable[[Facts, Policy], Decision | None]
    """Returns a decision, or None if the rule does not apply. A GoOn with `compact` is added to the next rule's."""


def _compaction(facts: Facts, policy: Policy) -> Decision | None:
    window, threshold = policy.compaction.window, policy.compaction.threshold
    if _overflowed_once(facts):
        return GoOn(rule="compaction", compact=True, why="the provider says that the context is too large")
    if facts.finish == "context_full":
        return GoOn(rule="compaction", compact=True, why="the provider says that the context is full")
    if window is None or facts.context_tokens < window * threshold:
        return None
    return GoOn(rule="compaction", compact=True, why=f"context over {threshold:.0%} of {window} tokens")


def _overflowed_once(facts: Facts) -> bool:
    return facts.error_kind == "context_overflow" and facts.overflows == 1


def _control_flow(facts: Facts, policy: Policy) -> Decision | None:
    if facts.accepted is not None:
        return Stop(rule="control_flow", reason="completed", detail="a completion was accepted")
    if facts.handled is not None:
        return Stop(rule="control_flow", reason="handled", detail="a handler answered, without the model")
    if facts.questions:
        return Pause(rule="control_flow", questions=tuple(q.call_id for q in facts.questions))
    if facts.rejection is None:
        return None
    in_vain = policy.patience.rejections_counted == "in_vain"
    times = facts.rejections_in_vain if in_vain else facts.rejections
    if times > policy.patience.rejections:
        between = " without progress in between" if in_vain else ""
        detail = f"completion handed back {times} times{between}, the last time because: {facts.rejection}"
        return Stop(rule="control_flow", reason="completion_rejected", detail=detail)
    say = "" if facts.calls else rejection_message(facts.rejection)  # a call's result already says it
    return GoOn(rule="control_flow", why="completion handed back", hand_back=True, say=say)


def _finish_reason(facts: Facts, policy: Policy) -> Decision | None:
    rule = "finish_reason"
    if _overflowed_once(facts):
        return GoOn(rule=rule, why="once more with a smaller context", hand_back=True)
    if facts.cut_by is not None:
        return Stop(rule=rule, reason="completed", detail="the step was cut short by an accepted completion")
    if facts.limit_reached is not None:
        return GoOn(rule=rule, why=f"cut off: {facts.limit_reached.limit} used up", hand_back=True)
    if facts.degenerate is not None:
        then = "" if facts.provider_error is None else f"; then {facts.provider_error}"
        return Stop(rule=rule, reason="degenerate", detail=facts.degenerate + then)
    if facts.provider_error is not None:
        return Stop(rule=rule, reason="provider_error", detail=facts.provider_error)
    match facts.finish:
        case "error":
            word = "" if facts.raw_finish in ("", "error") else f" ({_describe_finish(facts)})"
            detail = f"{facts.attempt}: the response ended with an error{word}"
            return Stop(rule=rule, reason="provider_error", detail=detail)
        case "pause" if not facts.calls:
            say = "" if facts.resumable else policy.prompts.paused
            return GoOn(rule=rule, say=say, why="the provider paused the response")
        case "retry" | "other":
            return _unfinished(facts, policy, rule)
        case "content_filter":
            if facts.refusals > policy.patience.refusals:
                return Stop(rule=rule, reason="refusal", detail="the provider refused to answer")
            return GoOn(rule=rule, say=policy.prompts.refused, why="blocked by a content filter")
        case "length" | "context_full":
            if facts.truncations > policy.patience.truncated:
                detail = f"{facts.truncations} responses in a row were cut off by the provider's length limit"
                return Stop(rule=rule, reason="no_answer", detail=detail)
            say = "" if facts.calls else policy.prompts.truncated
            return GoOn(rule=rule, say=say, why="the response was cut off by its length limit")
        case "stop" if facts.shape == "text":
            return decide_on_text(facts, policy, rule)
        case "tool_calls" if facts.shape == "tool_results":
            return decide_on_calls(facts, rule, "calls answered")
        case _:
            return None


def _unfinished(facts: Facts, policy: Policy, rule: str) -> Decision | None:
    """Decide on a response without calls whose finish word is not a success; None if the policy treats it as one."""
    allowed = policy.patience.unfinished
    if allowed is None or not facts.unfinished:
        return None
    if facts.unfinished <= allowed:
        return GoOn(rule=rule, say=policy.prompts.unfinished, why=f"the response ended with {_describe_finish(facts)}")
    detail = f"{facts.attempt}: the response ended with {_describe_finish(facts)}"
    if facts.finish == "other":
        word = facts.raw_finish[:LONGEST_WORD]
        detail += (
            ", which is not a known finish word and so does not count as a success. "
            f'If it means that the response is complete, pass finish_words={{{word!r}: "stop"}}'
        )
    if facts.unfinished > 1:
        detail += f" ({facts.unfinished} responses in a row ended so)"
    return Stop(rule=rule, reason="provider_error", detail=detail)


def _describe_finish(facts: Facts) -> str:
    """The vendor's finish word, with its meaning where that is known."""
    meaning = describe_finish_word(facts.raw_finish) if facts.finish in ("retry", "error") else ""
    return repr(facts.raw_finish[:LONGEST_WORD] or facts.finish) + (f": {meaning}" if meaning else "")


def _message_shape(facts: Facts, policy: Policy) -> Decision | None:
    rule = "message_shape"
    match facts.shape:
        case "tool_results":
            return decide_on_calls(facts, rule, "the last message is a tool result")
        case "text":
            return _unfinished(facts, policy, rule) or decide_on_text(facts, policy, rule)
        case "empty":
            if facts.empty_answers > policy.patience.empty_answers:
                detail = f"{facts.empty_answers} responses in a row held neither text nor a call"
                return Stop(rule=rule, reason="no_answer", detail=detail)
            why = "nothing but reasoning" if facts.reasoned else "an empty response"
            return GoOn(rule=rule, say=policy.prompts.empty, why=why)
        case "none" | "open_question":
            return None


def _go_on(facts: Facts, policy: Policy) -> Decision | None:
    return GoOn(rule="go_on", why="nothing says otherwise")


RULES: tuple[Rule, ...] = (
    Rule(
        "P0",
        "compaction",
        "Compacts the context before the next request if it is over the threshold. The rules below still apply.",
        ("context_tokens", "error_kind", "overflows", "finish"),
        _compaction,
    ),
    Rule(
        "P0.5",
        "control_flow",
        "Stops as `completed` on an accepted completion and as `handled` on a handler's answer. Pauses on an open "
        "question. Goes on after a rejected completion, a limited number of times.",
        ("accepted", "handled", "questions", "rejection", "rejections", "rejections_in_vain"),
        _control_flow,
    ),
    Rule(
        "P1",
        "finish_reason",
        "Stops as `completed` if an accepted completion cut the step, and stops on a provider error or a response that "
        "repeats itself. Leaves a step that a limit cut off to the guards. Goes on, a limited number of times, after "
        "`content_filter`, `length`, or text with a finish word that is unknown or not a success. Goes on after "
        "`tool_calls` and `pause`. Applies the setting `text` after `stop` with text.",
        (
            "cut_by",
            "limit_reached",
            "degenerate",
            "provider_error",
            "finish",
            "shape",
            "refusals",
            "truncations",
            "unfinished",
            "resumable",
            "text_verdict",
            "text_kind",
            "tool_choice",
        ),
        _finish_reason,
    ),
    Rule(
        "P2",
        "message_shape",
        "Looks at the response itself, whatever its finish reason. Goes on after tool results. Applies the setting "
        "`text` to text, unless its finish word is not a success. Asks again, a limited number of times, after a "
        "response that is empty or has only reasoning.",
        ("shape", "reasoned", "empty_answers", "unfinished", "text_verdict", "text_kind", "tool_choice", "monologue"),
        _message_shape,
    ),
    Rule("P3", "go_on", "Goes on, if no other rule decides.", (), _go_on),
)
"""The rules that come with endstop, in the order in which they are asked."""


def decide_on_text(facts: Facts, policy: Policy, rule: str) -> Decision:
    """Decide on a response with text and no calls. The text is not blank."""
    if facts.text_verdict == "final":
        return _final(rule, "the text rule says that this is the answer")
    if facts.text_verdict == "nudge":
        return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="the text rule says that this is no answer")
    if is_echo(facts.text, policy.echo) or (facts.tool_calls and is_announcement(facts.text, policy.echo)):
        if facts.monologue > policy.patience.echoes:
            detail = f"{facts.monologue} texts in a row, and the last only echoes or announces: {facts.text!r}"
            return Stop(rule=rule, reason="no_answer", detail=detail)
        return GoOn(rule=rule, say=policy.prompts.echo, why="the text only echoes or announces")
    if policy.question == "ask" and facts.text_kind == "question":
        return Stop(rule=rule, reason="awaiting_input", detail="the text asks the user for something")
    if facts.tool_choice == "required" and facts.completion_tools and policy.required_text == "nudge":
        say = policy.prompts.text_is_no_end
        return GoOn(rule=rule, say=say, why="every response is to call a tool, and this is text")
    if policy.text == "final":
        return _announced(facts, policy, rule) or _final(rule, "a plain answer ends the run")
    return GoOn(rule=rule, say=policy.prompts.text_is_no_end, why="text alone is no end")


def _announced(facts: Facts, policy: Policy, rule: str) -> Decision | None:
    """Decide on a text that would end the run; None unless it only announces what comes next, after a tool call."""
    allowed = policy.patience.announcements
    if allowed is None or not facts.tool_calls or facts.text_kind != "announcement":
        return None
    if facts.monologue > allowed:
        detail = f"{facts.monologue} texts in a row without a call, and the last only announces what comes next"
        return Stop(rule=rule, reason="no_answer", detail=detail)
    say = policy.prompts.announcement or policy.prompts.echo
    return GoOn(rule=rule, say=say, why="the text only announces what comes next")


def decide_on_calls(facts: Facts, rule: str, why: str) -> Decision:
    """Decide on a response whose calls are answered: the text rule may still end the run."""
    if facts.text_verdict == "final":
        return _final(rule, "the text rule says that this is the answer")
    return GoOn(rule=rule, why=why)


def rejection_message(reason: str) -> str:
    """What the model reads when its completion, or its plain text, is rejected."""
    return f"Not accepted as complete: {reason}"


def is_echo(text: str, echo: Echo) -> bool:
    """Whether a short text holds one of the phrases and nothing of substance beside it."""
    if len(text) >= echo.shorter_than:
        return False
    if echo.beside == "nothing":
        return _consists_of(text, echo.phrases)
    words, known = _words(text), _vocabulary(echo.phrases)
    kinds: list[str] = []
    place = 0
    while place < len(words):
        some = known.get(words[place], ())
        fits = next((entry for entry in some if words[place : place + len(entry[0])] == entry[0]), None)
        if fits is None:
            return False  # any other word is substance
        place += len(fits[0])
        kinds.append(fits[1])
    if "phrase" not in kinds:
        return False
    return "answer" not in kinds[len(kinds) - kinds[::-1].index("phrase") :]


def _consists_of(text: str, phrases: tuple[str, ...]) -> bool:
    """Whether a text consists of the phrases alone."""
    rest = _plain(text)
    if not rest.strip():
        return False  # a symbol without a word ("👍") may well be the answer
    for phrase in sorted((_plain(phrase) for phrase in phrases), key=len, reverse=True):
        rest = rest.replace(phrase, " ") if phrase.strip() else rest
    return not rest.strip()


def is_announcement(text: str, echo: Echo) -> bool:
    """Whether a short text begins with an announcement of what comes next."""
    if len(text) >= echo.shorter_than:
        return False
    return any(_plain(text).startswith(_plain(phrase)) for phrase in echo.announcements if phrase.strip())


def _plain(text: str) -> str:
    """The words in lower case between single spaces: case, white space and punctuation do not count."""
    return f" {_NOISE.sub(' ', text.casefold()).strip()} "


def _words(text: str) -> tuple[str, ...]:
    """The words in lower case and normal width; in scripts without spaces, each character."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    for short, whole in _SHORT.items():
        text = text.replace(short, whole)
    return tuple(_WORD.findall(text))


@lru_cache(maxsize=64)
def _vocabulary(phrases: tuple[str, ...]) -> dict[str, tuple[tuple[tuple[str, ...], str], ...]]:
    """The word sequences that an echo may consist of, each with its kind (`filler`, `answer` or `phrase`).

    They are grouped by their first word; in each group the longest sequence comes first.
    """
    kinds = {_words(word): "filler" for word in _FILLER.split("|")}
    kinds |= {_words(word): "answer" for word in _ANSWER.split("|")}
    kinds |= {words: "phrase" for phrase in phrases if (words := _words(phrase))}
    known: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for words in sorted(kinds, key=len, reverse=True):
        known.setdefault(words[0], []).append((words, kinds[words]))
    return {first: tuple(some) for first, some in known.items()}


def _final(rule: str, detail: str) -> Stop:
    return Stop(rule=rule, reason="text_final", detail=detail)


# ---- the words that an echo may hold

_NOISE = re.compile(r"[\W_]+")
_NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of Thai, Lao, Burmese, Khmer, Japanese and Chinese, which write no spaces between words."""
_WORD = re.compile(rf"[{_NO_SPACES}]|[^\W_{_NO_SPACES}]+")
_SHORT = {"n't": " not", "'ll": " will", "'m": " am", "'re": " are", "'ve": " have", "'d": " would", "'s": ""}
_ANSWER = (
    "yes|yeah|yep|no|nope|true|false|correct|right|possible|是|是的|是啊|对|对的|不|不是|不对|不行|不可以|可以|可以的|行|没有|"
    "はい|いいえ|네|아니요|sí|si|oui|non|ja|nein|да|нет|sim|não|sì"
)
"""Words that may come before a phrase ("Yes, I understand"); after the last phrase they are the answer."""
_FILLER = (
    # English
    "ok|okay|alright|all right|sure|sure thing|fine|great|good|perfect|excellent|wonderful|certainly|absolutely|"
    "of course|definitely|got it|understood|understand|noted|clear|thanks|thank you|very much|please|yes sir|hi|"
    "hello|well|so|then|and|or|also|but|now|here|there|right away|right now|immediately|shortly|directly|"
    "straight away|clearly|concisely|briefly|accurately|accordingly|carefully|completely|fully|exactly|just|only|"
    "simply|myself|too|as|soon|first|next|i|me|my|we|our|us|you|your|yours|the|a|an|this|these|that|those|it|its|"
    "them|they|what|how|whatever|which|all|any|user|users|assistant|question|questions|query|queries|request|"
    "requests|task|tasks|instruction|instructions|message|messages|prompt|requirement|requirements|rule|rules|"
    "guideline|guidelines|format|point|situation|context|answer|answers|answering|respond|responding|response|"
    "responses|reply|replies|replying|tool|tools|function|functions|call|calls|calling|use|using|used|not use|"
    "not call|no tools|without|will|would|shall|should|can|could|must|may|am|are|is|be|been|have|has|had|do|does|"
    "did|going|want|wants|need|needs|needed|require|required|requires|necessary|if|when|whenever|where|"
    "appropriate|to|for|of|in|on|with|by|from|at|asked|asking|ask|asks|say|said|mean|meant|saying|follow|"
    "following|proceed|begin|begins|start|started|starting|get|provide|providing|give|giving|make|sure to|try|"
    "help|helping|assist|assisting|happy|glad|ready|let|like|know|tell|go|ahead|continue|wait|moment|one moment|"
    "it up|based|knowledge|text|plain|language|best|ability|possible answer|as possible|today|"
    "further|more|information|details|"
    # Chinese
    "好|好的|好吧|好嘞|嗯|哦|啊|吧|呢|吗|嘛|了|的|地|得|明白|明白了|了解|了解了|理解|理解了|知道了|收到|清楚|"
    "清楚了|当然|当然可以|没问题|没有问题|谢谢|感谢|谢谢您|不客气|请|请稍等|稍等|稍候|请问|您好|你好|我|我们|您|"
    "你|用户|助手|问题|要求|意思|意图|指令|指示|任务|请求|需求|提问|规则|说明|内容|信息|情况|按照|根据|依照|遵循|"
    "遵守|执行|完成任务|现在|马上|立即|立刻|将|将会|会|就|就会|要|来|去|再|先|然后|接着|接下来|下面|以下|并|并且|"
    "和|与|或|而|也|都|则|如果|若|当|时|时候|的话|需要|需|必要|有必要|必要时|使用|会使用|用|调用|借助|工具|函数|"
    "任何|不使用|不会使用|不用|不需要|无需|不需|不必|不会|不调用|直接|开始|进行|继续|尽力|努力|为|给|对您|对你|"
    "帮|帮助|帮您|帮你|协助|提供|告诉|告知|回答|答复|回复|解答|答案|作答|回应|有|什么|哪些|怎么|这个|这些|那个|"
    "那么|这|那|它|其|自己|知识|已有|随时|准备|准备好|准备好了|可|能|能够|可以帮|可以使用|可以调用|可以为|"
    "可以回答|中文|文字|语言|一下|所有|您的|你的|我的|之后|后|以|把|向|从|在|中|里|上|"
    # Japanese, Korean
    "承知しました|了解しました|了解です|わかりました|分かりました|かしこまりました|では|それでは|質問|直接|回答|"
    "回答します|お答えします|答えます|します|です|ます|ました|に|を|は|が|の|で|と|も|ご|お|これから|ツール|使用|"
    "使います|必要|場合|ありがとうございます|알겠습니다|네 알겠습니다|질문에|질문|직접|답변|답변하겠습니다|"
    "대답하겠습니다|답하겠습니다|이해했습니다|감사합니다|바로|"
    # Spanish, French, German, Portuguese, Italian, Russian
    "vale|bien|bueno|de acuerdo|claro|por supuesto|perfecto|entendido|entiendo|gracias|su|tu|pregunta|la|el|los|"
    "las|responderé|directamente|ahora|usuario|d'accord|très|bien sûr|compris|j'ai|je|vais|vous|votre|ta|le|les|"
    "répondre|maintenant|directement|à|merci|parfait|question|gut|klar|alles klar|verstanden|in ordnung|"
    "natürlich|ich|habe|werde|die|der|das|frage|direkt|jetzt|ihre|deine|beantworten|antworten|danke|und|y|et|e|"
    "entendi|claro que sim|certo|obrigado|vou|responder|diretamente|a|sua|pergunta|capito|ho|va bene|rispondo|"
    "risponderò|direttamente|grazie|alla|domanda|хорошо|понял|понятно|конечно|спасибо|я|отвечу|ответить|напрямую|"
    "на|ваш|вопрос|сейчас|и|буду"
)
"""Words without substance: courtesies, words about the conversation itself, and function words."""
