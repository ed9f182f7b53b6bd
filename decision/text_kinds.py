"""Tells what a text of a model is: an answer, a question to the user, an announcement, or one of five other kinds.

A program that runs an agent reads a response without calls as "done", although most such texts in a conversation ask
the user for something. `classify_text` tells them apart by how the text begins and how it ends. It looks at the first
and the last 2,000 characters only, so that its work is bounded, and never raises.

Each kind has one test, and they are asked in this order:

- *error*: a short text that begins as errors of providers and tools do ("API Error: 529 ...");
- *echo*: the text begins by saying what a tool returned, and draws no conclusion from it;
- *refusal*: the first sentences decline, and nothing is asked afterwards but whether an offer is taken;
  *refusal_with_offer*, if something else is offered anywhere;
- *question*: one of the last sentences asks the user for something. What merely offers more help does not count, but
  whether to go on does;
- *partial*: it says what is left for the agent to do, or that not all is done of what it counts;
- *announcement*: the last sentence says what comes next ("Let me run the tests:");
- *answer*: everything else.

Phrases stand in tables by language: English, Spanish, French, German, Portuguese, Italian, Russian, Chinese, Japanese
and Korean. A text in another language is a question if it ends with a question mark of its script, and otherwise an
answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Literal, get_args

from . import report_phrases
from .chinese_script import SIMPLIFIED, simplified
from .confirmation import ASKING_ENDINGS
from .phrases import Phrases

TextKind = Literal[
    "answer", "partial", "question", "announcement", "refusal", "refusal_with_offer", "echo", "error"
]  # fmt: skip
"""What a text of a model is, as `classify_text` tells it. An `echo` repeats a tool's result; texts that repeat an
instruction are another matter (`Policy.echo`, `echoes.py`)."""
TEXT_KINDS: frozenset[str] = frozenset(get_args(TextKind))
LAST_WORDS: frozenset[TextKind] = frozenset({"answer", "refusal"})
"""Kinds of text with which a model ends its work: it has nothing more to do, and waits for nothing."""

SEEN = 2_000
"""Characters that are looked at from the beginning of a text, and as many from its end."""
_LONGEST_ERROR = 1_500
"""Most characters of a text that is an error; a longer one reports about errors."""
_REPORT = 8
"""Sentences at the end in which a report says what is left."""
_OPENING = 4
"""Sentences at the beginning in which a refusal stands."""
_CLOSING = 4
"""Sentences at the end in which a question stands."""

_ERROR = (
    r"api error|(internal )?server error|error code:? ?\d|error ?[:(\-]? ?[45]\d\d\b|[45]\d\d (too many|internal|bad|"
    r"service|gateway|unauthori[sz]ed|forbidden|payload|not found|overloaded|\{)|http(/[\d.]+)? ?(error|"
    r"status)?:? ?[45]\d\d|(fatal |unexpected |internal |runtime |provider |tool |litellm|openai|anthropic|"
    r"google)[\w. ]{0,40}(error|exception)\b ?[:(]|error( (calling|running|executing|while|from|in|"
    r"during)[\w ]{0,40})?:|\w*(error|exception):|traceback \(most recent call last|<(!doctype )?html.{0,200}(error|"
    r"bad gateway|unavailable|denied)|\{ ?\"(type\" ?: ?\")?error\"|(rate|usage|quota|token)? ?limit (reached|"
    r"exceeded)(?!\?)|too many requests|you('ve| have) (hit|reached|exceeded) your .{0,30}(limit|quota)|"
    r"you exceeded your current quota|(connection|network|request|gateway|read)( was| has| is)? ?(error|refused|reset|"
    r"timed? ?out|aborted|failed)|(request|call|generation) (failed|error|cancelled by|interrupted)|"
    r"\[request (interrupted|cancelled)|prompt is too long|input is too long|context (length|window) exceeded|"
    r"credit balance is too low|(invalid|incorrect|missing) (api[ -]key|x-api-key|auth)|(model|service|"
    r"server) (is )?(currently |temporarily )?(overloaded|unavailable)|overloaded_error|overloaded$|错误[:(]|"
    r"出错了?[:,]|请求失败|エラー[:(]|エラーが発生|오류[:(]|오류가 발생|erreur ?[:(\d]|fehler ?[:(\d]|errore ?[:(\d]|"
    r"erro ?[:(\d]|ошибка ?[:(\d]|[\w.]{1,80}(error|exception|timeout)\b ?[:(]|(econnre|etimedout|econnaborted)|"
    r"failed to (connect|fetch|reach)\b|(the )?(service|server|model|upstream) (is )?(temporarily )?(unavailable|busy)|"
    r"service unavailable|(fehler|zeit[uü]berschreitung) (bei|beim|w[aä]hrend|in)\b[^:\n]{0,80}:|"
    r"verbindung (\w+ )?(abgelehnt|verweigert|fehlgeschlagen|unterbrochen)|(anfrage|aufruf) (ist )?fehlgeschlagen|"
    r"(anfrage|raten)limit|erreur (lors|de|pendant|interne|serveur|r[eé]seau)[^:\n]{0,80}:|(le |la )?(quota|limite|"
    r"d[eé]lai)[^.\n]{0,60}d[eé]pass|connexion (refus|perdue|r[eé]initialis|interrompue)|error (al|de|en|"
    r"interno)\b[^:\n]{0,80}:|(se ha |has )(superado|excedido|alcanzado) (la|el|su|tu) (cuota|l[ií]mite)|(l[ií]mite|"
    r"cuota) [^.\n]{0,40}(superad|excedid|alcanzad)|(conexi[oó]n|solicitud|petici[oó]n) (rechazada|fallida|agotada|"
    r"interrumpida)|(请求|连接|调用|接口)(失败|超时|被拒绝|出错)|服务(器)?(内部错误|繁忙|暂时不可用|不可用|过载)|"
    r"(已)?(超出|达到|超过)了?[^,。\n]{0,8}(限制|上限|配额)|错误(码|代码)|(リクエスト|接続|通信|"
    r"サーバー?)[^。\n]{0,12}(失敗|タイムアウト|切断|過負荷|エラー)|(レート|利用)(制限|上限)|タイムアウト(しま|エラー|"
    r":)|(内部|サーバー?|通信|接続)エラー|エラー(コード)?\s?\d|요청(이)? (실패|한도)|(upstream|gateway|provider|"
    r"request|response|connection|stream|server|api|socket)\b[\w ]{0,30}\b(timeout|timed out|hang up|closed|reset|"
    r"aborted|refused|disconnected|unavailable)|the (server|api|service|provider|model) (had|encountered|returned|is|"
    r"reported) (an? (internal |unexpected )?error|overloaded|not available|unavailable)|[\w.]{0,60}(exhausted|"
    r"exceeded|overloaded)\w*( \[[^\]\n]{0,20}\])? ?[:(]|(the )?model '[^'\n]{1,60}' (does not exist|not found|is not)|"
    r"insufficient (credit|balance|quota|fund)|context_length_exceeded|(tool|function|command|call|task|"
    r"mcp)[\w ]{0,30}(failed|error|timed out)( ?[-:(]| with| after)|mcp error|"
    r"[\w/.-]{1,30}: [\w/. -]{1,60}: (command not found|no such file|permission denied)|\w*timeouterror|\[?(error|"
    r"fatal|err)\]|errno|zeit[uü]berschreitung|(der |die )?(dienst|server|modell|api|"
    r"schnittstelle)[^.\n]{0,40}(nicht (verf[uü]gbar|erreichbar)|[uü]berlastet)|zu viele anfragen|(api|模型|网络|系统|"
    r"服务|服务器|请求|接口) ?(服务|调用)?(错误|异常|繁忙|超时|暂时|不可用|过载|无响应)|(当前)?请求(过多|过于频繁)|"
    r"(配额|余额)(不足|已用完|耗尽)|(api|サーバー|サービス|モデル)[^。\n]{0,12}(混み合|利用でき|応答(が|し)|停止)|"
    r"(limite|quota) d[e'][^.\n]{0,30}(atteint|d[eé]pass|[eé]puis)|(le )?(service|serveur)[^.\n]{0,20}(indisponible|"
    r"surcharg|injoignable)|[eé]chec (de|du|lors)[^.\n]{0,30}(requ[eê]te|connexion|appel|authentification)|"
    r"trop de requ[eê]tes|(la |el )?(conexi[oó]n|servidor|servicio|solicitud|modelo)[^.\n]{0,30}(cerr[oó]|agot|rechaz|"
    r"no (est[aá] )?disponible|sobrecarg|fall[oó]|interrump)|no se pudo (conectar|completar la (solicitud|petici)|"
    r"establecer)|demasiadas (solicitudes|peticiones)|tiempo de espera|unexpected token|fetch failed|"
    r"max retries exceeded|uncaught (exception|error)|unhandled (exception|rejection|error)|fehlercode|"
    r"error de (autenticaci|conexi|red|servidor)|c[oó]digo de error|code d'erreur|(api|raten)[- ]?limit|apiキー|"
    r"[\w-]*limit (erreicht|[uü]berschritten)|ung[uü]ltiger (api|schl[uü]ssel)|401 unauth|403 forbidden"
)

_REQUESTS = {
    "en": r"please,? (also |first |kindly |try to |do |could you )?(provide|confirm|share|specify|tell|choose|select|"
    r"send|enter|give|clarify|double[ -]?check|re-?check|locate|upload|paste|attach|reply|respond|answer|indicate|"
    r"advise|describe|pick|decide|grant|supply|state|list|name|verify (that|your|the|whether)|make sure (the|that|"
    r"your)|review and|approve|authori[sz]e|log ?in|sign ?in|type|let me know (which|what|how|who|whether|where|"
    r"when|the|your|if you('d| would| want| wish| are| still| have)|once|by))|let me know (which|what|how|who|"
    r"whether|where|when (you|it)|your|the|if you('d| would| want| wish)? ?(like|want|wish|prefer)? (to|"
    r"me to) (go ahead|proceed|continue|confirm|do (this|that|it|so)))|(tell|give|send) me (which|what|how|who|"
    r"whether|where|when|your|the|more)|to (go on|proceed|continue|start|begin|help|assist)\b[^.]{0,60}\b(i|"
    r"we)('ll| will| would| still)? need|(i|we)('ll| will| would| still| also| first| just| do)? ?(still |also |"
    r"first |just )?need (your|to (know|confirm)( your|\b)|you to|more (info|detail|context)|some (more |"
    r"additional |basic )?(info|detail|context)|(a few|one|a bit) more|the [\w -]{1,40} (from|of your|you|and|to|"
    r"in order|before|for)|the following|access to|either|confirmation|permission|clarification)|(could|can|would|"
    r"will) you (please|kindly)|waiting for your|once (you have|i have|you('ve| provide)|i get) .{0,60}(please|"
    r"let me know)|what would you like|which (one )?(would|do) you|may i have|before i (proceed|continue|begin|"
    r"start|go|can)[^.]{0,60}(please|need|confirm)|\byour call\b|(^|[,;:] )i('ll| will) wait\b|i need (both|these|"
    r"those|them|all (of )?(these|them|three|four)|either)\b|(can't|cannot|can not|won't) (proceed|continue|go on|"
    r"start) (without|until)|waiting (for|on) (you\b|your\b)|\b(reply|answer|type|respond)( with)? ('|\"|“)?(yes|"
    r"ok|no|confirm)\b|\bsay ('|\"|“)?yes\b|over to you\b|once you('ve| have)? (confirm|approv|decid|answer|repl|"
    r"pick|cho)|if you (can |could )?(provide|give|share|send|tell)( me)? .{0,120}(i can|i'll|i will|we can)|"
    r"^\W*(choose|pick|select) (one|an option|between|from)\b|are you sure\b|\btype '?\w+'? to (confirm|continue|"
    r"proceed)|(^|[,;] )to \w+[^.]{0,60}\bi('d| would)? need\b|\bi('d| would) need (the|your|a|an|to know)\b|"
    r"\bkindly (share|provide|confirm|send|let|tell|specify|reply)",
    "es": r"por favor,? (indi(que|ca)|proporcion[ea]|confirm[ea]|d[ií](ga|me)|env[ií][ea]|compart[ea]|elija|elige|"
    r"escrib[ea]|especifi(que|ca)|seleccion[ea]|aclar[ea]|facilit[ea]|revis[ea]|haz|hága|comun[ií])|"
    r"(ind[ií]qu?[ea]|d[ií]ga|di|conf[ií]rm[ae]|env[ií][ea]|proporci[oó]n[ea])me |necesito (su|tu|que|saber|"
    r"conocer|m[aá]s)|(espero|aguardo|quedo a la espera de) (su|tu|que)\b|tengo que saber|me (falta|faltan) (su|tu|"
    r"saber|por saber)|(conf[ií]rm|d[ií]g|ind[ií]qu|av[ií]s)[aeá]\w*melo\b|necesitar[ií]a|(me )?(puede|podr[ií]a|"
    r"puedes|podr[ií]as) (indicar|decir|proporcionar|confirmar|enviar|dar)|me faltan? (el|la|los|las|su|"
    r"tu) (n[uú]mero|dato|fecha|nombre|direcci|correo|c[oó]digo|clave)",
    "fr": r"veuillez|merci de (m |me |bien |nous )?(\w+er|\w+ir|\w+re)\b|(pouvez|pourriez)[ -]vous|(peux|"
    r"pourrais)[ -]tu|j ?'?ai (encore |aussi )?besoin (de|d|que|du)|(dites|indiquez|donnez|envoyez|confirmez|"
    r"pr[eé]cisez|dis|indique|donne|envoie)[ -](moi|nous)(?! une? (seconde|instant|minute|moment))|s'?il (vous|"
    r"te) pla[iî]t,? (\w+ez|\w+e)\b|il me faut (votre|vos|ton|le|la|les)|j'attends (votre|ta|ton|vos|que)|"
    r"en attente de (votre|ta|vos)|faites[ -](le )?moi savoir|il me manque (encore )?(votre|la|le|les|une?)\b|"
    r"il me faudrait|pourriez[ -]vous|\bindiquez\b(?! comment)|\bpr[eé]cisez\b|merci d'\w+er\b",
    "de": r"bitte (\w+ )?(geben|nennen|teilen|best[aä]tigen|sagen|senden|schicken|w[aä]hlen|pr[uü]fen|gib|nenne?|"
    r"teile?|best[aä]tige?|sage?|sende?|schicke?|w[aä]hle?|pr[uü]fe?|beschreib|beschreiben|laden|lade|entscheiden|"
    r"entscheide|antworten?|um)\b|(teilen|nennen|geben|sagen|schicken|senden) sie (mir|uns)|(teile?|nenne?|gib|sag|"
    r"schicke?) (mir|uns)|(ich|wir) (brauche|ben[oö]tige)n? (noch |daf[uü]r |dazu |zuerst |vorher )?(ihre|deine|"
    r"die|den|das|eine|weitere|mehr|von)|(k[oö]nnen|k[oö]nnten|w[uü]rden) sie (mir|bitte|uns)|(kannst|"
    r"k[oö]nntest) du (mir|bitte|uns)|schreiben sie (mir |bitte |einfach )?('|\"|„|»|ja\b)|schreib (mir |"
    r"einfach )?('|\"|„|ja\b)|(ich )?warte (noch )?auf (ihre|deine)|dazu (brauche|ben[oö]tige) ich|(brauche|"
    r"ben[oö]tige) ich (noch |von ihnen |vorher |zuerst )*(ihre|deine|die|den|das|eine|ein)\b|(lassen sie|"
    r"lass) mich wissen,? (welch|was|wie|ob (ich|das))|\b(ihre|deine) [\w-]+ bitte\W*$|"
    r"ben[oö]tigt werden (noch )?(ihre|die)|\b(mir|uns) fehl(t|en) noch\b|\bfehl(t|en) (mir|uns) noch\b",
    "pt": r"por favor,? (me )?(inform[ea]|forne[cç]a|confirm[ea]|envi[ea]|dig?a|indique|escolha|selecione|especifique|"
    r"compartilhe|esclare[cç]a|verifique|responda)|(informe|confirme|diga|envie|indique)[ -]me|preciso (que|saber|"
    r"de mais|do seu|da sua|do n|dos seus|das suas|do teu|do c[oó]digo)|(voc[eê] )?(pode|poderia) (me )?(informar|"
    r"dizer|confirmar|enviar|fornecer)",
    "it": r"(per favore|per cortesia|cortesemente|prego|si prega di),? (mi )?(indic|forn|conferm|dica|dimmi|dammi|"
    r"invi|scelga|scegli|specific|comunic|verific)\w*|(mi )?(indichi|fornisca|comunichi|dica|confermi|"
    r"faccia sapere)\b|(fammi|mi faccia) sapere (quale|quali|se vuo|come|cosa)|(confermami|dimmi|indicami|inviami|"
    r"forniscimi)|ho bisogno (del|della|dei|di sapere|che|di (altre|maggiori|pi[uù]))|mi serv(e|ono) (il|la|i|le|l')",
    "ru": r"пожалуйста,? (\w+ )?(укажите|подтвердите|сообщите|предоставьте|уточните|выберите|скажите|пришлите|"
    r"отправьте|назовите|введите|напишите|опишите|проверьте|укажи|подтверди|сообщи|уточни|выбери|скажи|пришли|назови)|"
    r"(укажите|подтвердите|сообщите|предоставьте|уточните|выберите|скажите|пришлите|назовите|введите),? (пожалуйста|"
    r"ваш|мне|свой|какой|какую|номер)|(мне|нам) (ещё |также )?(нуж(ен|на|но|ны)|потребуется) (ваш|знать|номер|ещё|"
    r"уточнить|подтверждение|дополнительн)|жду (вашего|ответа)",
    "zh": r"请(您|你)?(先|再|问|提供|告诉|告知|确认(一下)?(是否|以下|您|你|要|哪|$)|选择|输入|说明|发送|指定|回复|给出|"
    r"把|将|决定|定一下|授权|允许|批准|给我|补充|描述|核对|上传|提交|明确|澄清)|(需要|还需要|需)(您|你)(先)?(提供|"
    r"确认|告诉|的|补充|选择|授权)|麻烦(您|你)?(提供|告诉|告知|确认|发)|(是否|要不要|能否|可否|可以)(需要)?(我|"
    r"继续|告诉我|提供).{0,20}$|您(想|希望|要|打算)(要|让|选)?.{0,12}(哪|什么|怎么)|(等|等待|等候)(您|你)的?(确认|"
    r"回复|答复|决定|指示|同意|批准)|(由|听)(您|你)(来)?(决定|定)|麻烦(您|你)?(把|将)|(发|告诉|提供)给我(一下)?$",
    "ja": r"(教えて|お知らせ|お聞かせ|ご?確認して?|ご?提供(して)?|ご?指定(して)?|ご?選択(して)?|選んで|お選び|入力して|"
    r"ご?入力|送って|お送り|共有して|ご?共有|お伝え|ご?記入)(ください|下さい|いただけ|頂け|もらえ|願)|(必要|"
    r"知りたい)です(が|ので).{0,12}(お|ご|教|$)|(貼り付けて|ご?記入して|ご?連絡)(ください|下さい|いただけ)",
    "ko": r"(알려|말씀해|제공해|확인해|선택해|입력해|보내|지정해|공유해|골라|설명해|첨부해) ?(주세요|주십시오|주시|줘|"
    r"주실|주겠)|(필요합니다|필요해요)[^.]{0,10}(알려|제공|말씀)|무엇을 (도와|원)",
}
"""Requests to the user that need no question mark."""

_MORE = (
    r"anything else|any ?thing more|(something|anyone) else[^.]{0,80}\?|any (other |more |further |"
    r"additional )?(questions?|concerns|requests|issues|tweaks|adjustments)|(other|more|further|"
    r"additional) (questions?|concerns|requests)|how (does|did) (that|this) (look|sound)|algo m[aá]s|otra (cosa|"
    r"pregunta|duda|consulta)|alguna (otra )?(duda|pregunta|consulta)|m[aá]s ayuda|no dud[ea]s? en|autre chose|"
    r"d'? ?autres? (question|demande|besoin)|besoin d'? ?(autre|aide)|n'? ?h[eé]sitez pas|n'? ?h[eé]site pas|"
    r"noch (etwas|was)|sonst noch|weitere[nr]? (frage|hilfe|w[uü]nsche|unterst)|weiterhelfen|bei fragen|mais (alguma|"
    r"algo)|algo mais|outra (d[uú]vida|pergunta|coisa)|alguma (outra )?d[uú]vida|mais ajuda|qualquer d[uú]vida|"
    r"(qualcos'?|nient|qualcosa d'? ?)altro|altr[ei] domand|ulterior[ei]|bisogno di (altro|aiuto)|чем[- ](нибудь|то|"
    r"либо)? ?(ещ[её]|помочь)|что[- ](нибудь|то|либо) ещ[её]|ещ[её] (чем|что|вопрос)|(другие|дополнительные) вопрос|"
    r"обращайтесь|(如果|如|若|要是).{0,6}(还有|有|需要)?.{0,4}(其他|其它|任何|别的|更多|进一步|疑问|问题)|还有(什么|"
    r"其他|其它|别的)|其他.{0,6}(帮|问题|需要)|随时|(他|ほか)に.{0,10}(何か|ご|質問|あり|手伝)|何か(あれば|"
    r"ございましたら|ご不明|他に)|ご不明な?点|お気軽に|遠慮なく|いつでも|다른 .{0,8}(도움|질문|필요|문의)|더 (필요|"
    r"도와|궁금)|추가로 .{0,8}(필요|궁금|도)|궁금한 .{0,6}(있|점)|언제든"
)
"""An offer of anything more, as a question too: it is not needed to go on."""
_COURTESY = (
    r"need (any |some )?(more |further |other |additional )?(help|assistance|anything|support|clarification)|(further|"
    r"additional|more) (help|assistance)|feel free|reach out|don't hesitate|(happy|glad) to (help|assist|answer|"
    r"explain|adjust|make)|here (to|if you) (help|need|assist)|let me know if (you('d| would| want| wish|'re| are|"
    r" have| need| run| see| prefer)|there|anything|i can|it|this|that|something|any)|if you('d like|'d prefer|"
    r" would like| want| prefer| need| decide| wish)[^?]{0,120}(let me know|just (say|ask|tell)|i can|i'll|i could|"
    r"i'd)|have a (great|nice|good|wonderful|safe|pleasant)|safe travels|you're welcome|enjoy"
)
"""Statements that close a text without being needed to go on."""
_PROCEED = (
    r"(would|do) you (like|want|wish) (me )?to (continue|proceed|go (on|ahead)|carry on|keep going|resume|move on)\b|"
    r"(shall|should|may|can) i (now )?(continue|proceed|go (on|ahead)|carry on|keep going|resume)\b|if you('d|"
    r" would)? ?(like|want|wish|prefer)( me)? to (proceed|continue|go (ahead|"
    r"on))\b(?! differently)[^.]{0,160}let me know|let me know (whether|if) i (should|may|can) (continue|proceed|"
    r"go (on|ahead))|(quiere|quieres|desea) que (contin[uú]e|siga|proceda)|¿(contin[uú]o|sigo|procedo)|(souhaitez|"
    r"voulez|veux)[- ](vous|tu) que je (continue|poursuive)|je continue ?\?|(dois|puis)-je (continuer|poursuivre)|"
    r"soll ich (jetzt |nun |damit )?(fortfahren|weitermachen|weiter)|m[oö]cht\w+ (sie|du), dass ich (fortfahre|"
    r"weitermache)|(posso|devo) continuar|(posso|devo) (continuare|procedere)|(мне )?продолж(ать|ить) ?\?|(要|需要|"
    r"是否|可以)?(我)?(继续|接着做)(吗|么|\?)|(需要|是否|要不要)(让)?我?继续|続けて?(も(いい|よろしい)|よいでしょうか|"
    r"よろしいでしょうか|ましょうか)|続行し(ますか|てよろしい|ましょうか)|계속 ?(할까요|진행할까요|해도)"
)
"""Asks whether to go on; that is needed to go on, whatever was reported before."""
_AGREEMENT = (
    r"let me know (if|whether)\b|say the word|would (that|this) (be|work|suit|help)|(is|does) (that|this) (ok|okay|"
    r"work)|dites[ -]moi si|dis[ -]moi si|d[ií]game(lo)? (si|y)|dímelo|dígamelo|(sagen sie|"
    r"sag) (mir )?(einfach )?(bescheid|ob)|(lassen sie|lass) (es )?mich wissen,? (wenn|ob)|¿(le|te) parece|¿lo hago|"
    r"m[oö]chten sie das|需要吗|行吗|可以吗|好吗|お申し付け|お知らせください$|\bpasst (das|es|ihnen)|ist das (ok|"
    r"in ordnung|recht)|¿(le|te) (sirve|va bien|paso)|([cç]a|cela) (vous )?(va|convient|irait)|您看|要不要我|需要我|"
    r"いかが|ましょうか|よろしい(です|でしょう)か|\bwant (that|this|it|one)\?|\bw[aä]re (das|dies|ihnen das)\b|"
    r"\bis (that|this) (fine|alright|all right)\b"
)
"""Asks whether the user takes what was offered."""
_ALTERNATIVE = (
    r"(?<!wish )(?<!something )(?<!what )\b(i|we)( can|'ll| will| could|'d| would)( however,?| also| instead| still|"
    r" certainly| gladly|,? though,?| of course| only)* ?(be |feel )?(happy|glad|able|pleased|willing|help|offer|"
    r"provide|show|give|transfer|connect|book|cancel|draft|write|prepare|suggest|look|summari[sz]e|point|walk|explain|"
    r"assist|switch|check|do|set|make|send|put|run|create|try|build|share|arrange|place|add|refer|schedule|generate|"
    r"list|search|find|recommend)\b(?! not)|\b(happy|glad) to\b|if you('d| would)? (like|prefer)\b|if you (want|"
    r"wish)( me\b|,)|if (that|this|it)('d| would|'s| is)? ?(be )?(useful|helps?|of interest|okay|ok|works?|acceptable)|"
    r"\byou('d| would)? (like|want|prefer) me to\b|\bwould (like|want|prefer) me to\b|\bsay the word\b|"
    r"\bwhat i can (do|offer) (is|instead)\b|\bhere's what i can\b|\binstead[,.?!]?\W*$|\binstead, (i|we)\b|\b(i|"
    r"we) (can|could|will)[^.]{0,120}\binstead\b|\balternative(ly|s)?\b|(?<!no )\b(puedo|podr[ií]a|"
    r"podemos) (\w+ )?(ofrecer|buscar|ayudar|cancel|prepar|redact|envi|pasar|cambi|hacer|darle|mostr|reserv)|(si|"
    r"cuando) (lo )?(quieres?|prefier|desea|le parece|te parece|gusta)|en (su|tu) lugar|en cambio|otra opci[oó]n|"
    r"como alternativa|en revanche|je peux (vous |te |toutefois|cependant|par contre|plut[oô]t|en revanche)|"
    r"si vous (le )?(souhaitez|voulez|pr[eé]f)|si (tu|cela|[cç]a) (veux|vous|te)|dites[ -]moi si|à la place|"
    r"je vous propose|stattdessen|auf wunsch|alternativ|gerne? (kann|schreibe|stelle|helfe|biete|erstelle|suche|"
    r"schicke|mache|leite|verbinde|\w+e ich)|(k[oö]nnte|kann|w[uü]rde) ich (ihnen|dir|aber|jedoch|gerne?|stattdessen)|"
    r"ich (kann|k[oö]nnte) (ihnen|dir|aber|jedoch|gerne?|stattdessen)(?![^.]{0,80}(nicht|keine?n?)\b)|"
    r"(?<!não )(?<!non )\bposso (oferecer|ajudar|cancelar|sugerir|preparar|ofrirle|offrir|proporre|aiutar|cercare|"
    r"prepararle)|se (quiser|preferir|desejar|vuole|preferisce|desidera)|em vez disso|in alternativa|(но|однако|"
    r"зато) (я )?(могу|можем)|если хотите|вместо этого|(不过|但|但是|我)(是)?,?(我)?(可以|能)(帮|为|给|替|先|改|提供|"
    r"把|协助|代)|可以(帮|为|给|替)(您|你)|(如果|若|如)(您|你)?(愿意|需要|想|希望|同意|方便)|要不要|需要吗|行吗|可以吗|"
    r"或者(您|你|我)|代わりに|(なら|であれば|でしたら|形で)[^。]{0,40}(でき|可能|対応|いたし|お手伝い|し)|よければ|"
    r"よろしければ|ご希望|お申し付け|(대신|원하시면|괜찮으시면|필요하시면)|(드릴|도와드릴) 수 ?(는 )?있|\bif you (send|"
    r"give|provide|share|grant|can send)( me)?\b[^.]{0,80}\b(i'll|i can|i will)\b|(ご案内|お調べ|ご紹介|お手伝い|"
    r"ご用意|提案|お出し|承)(する|し)?(ことが|こと)?(でき|可能|れ)ます|\b(m[oö]chten|w[uü]nschen) sie\b|(souhaitez|"
    r"voulez|pr[eé]f[eé]r\w+)-vous\b|(quiere|quieres|prefiere|desea)s? (que|una|el|la)\b|\bsi (me|nos) (pega|manda|"
    r"env[ií]a|pasa)s?\b|lo que s[ií] puedo|wenn sie das (w[uü]nschen|m[oö]chten)|\bwant me to\b|(?<!wish )\b(i|"
    r"we) could (?!(not|n't|find|see|only|have|be)\b)\w|\bwould (also )?be (possible|feasible|doable)\b|\bis doable\b|"
    r"ことは?可能|なら(可能|できます)|si cela vous int|reste (possible|envisageable)|(w[aä]re|ist) (aber |jedoch |"
    r"stattdessen )?(m[oö]glich|machbar|frei)\b"
)
"""Names something else that the speaker would do."""
_AFTERTHOUGHT = (
    r"\(|(this|that|it|which|these)( [\w`'.]+)? (will|should|would|way|helps|lets|includes|ensures|allows)\b"
)
"""Begins a sentence that only explains the one before it."""

_OFFER = (
    r"(would|do) you (like|want|prefer|wish)|want me to|shall i|should i|can i|may i|i can (transfer|help|offer|"
    r"connect|assist|also)|let me know if|instead\b|anything else|(quiere|desea|gustar[ií]a|prefiere)|(souhaitez|"
    r"voulez|pr[eé]f[eé]r|aimeriez|veux)|(m[oö]chten|m[oö]chtest|soll ich|wollen|willst)|(quer|gostaria|deseja|"
    r"prefere)|(vuole|vuoi|desidera|preferi)|(хотите|хочешь|желаете|могу ли)|(要不要|是否|需要我|可以吗|好吗|想)|"
    r"(ましょうか|よろしい|いかが|ご希望)|(까요|드릴까|원하)"
)
"""A question whether the user takes an offer; after a refusal or a report it asks for nothing that is needed."""

_TO_USER = (
    r"you|your|shall i|should (i|we)|may i|can i|could i|do i|usted(es)?|su|sus|tu|te|puede|quiere|desea|vous|votre|"
    r"vos|tu|ton|sie|ihre?n?|du|dein\w*|soll ich|voc[eê]|seu|sua|lei|suo|sua|tuo|tua|vuoi|vuole|вы|вас|вам|ваш\w*|ты|"
    r"тебе|хотите"
)
_TO_USER_UNSPACED = r"您|你|请|ください|いただけ|ますか|でしょうか|주세요|주시|까요|나요|습니까"
"""What tells that a question is meant for the user, where more text follows it."""

_NOT_PAST = (
    r"(?!(prepar|gener|compar|configur|mejor|encontr|mostr|entr|logr|retir|borr|cerr|repar|separ|integr|registr|filtr|"
    r"administr|declar|explor|mir|compr|restaur|depur|incorpor)é\b)"
)
"""No past tense of a Spanish verb that looks like a future ("preparé": I prepared)."""
_NOT_A_STATE = (
    r"(?!(habe|sehe(?! mir)|finde|denke|glaube|empfehle|kenne|verstehe|brauche|ben[oö]tige|hoffe|rate|vermute|"
    r"bedau\w+|bitte|danke|best[aä]tige|freue|entschuldige|schlage|gehe davon|lasse|meine|halte|sch[aä]tze|nenne|"
    r"nutze|verwende|benutze|bleibe|stehe|w[uü]nsche|weise|biete|erwarte|rechne|bevorzuge|gerne|heute|keine|eine|"
    r"diese|alle|ohne|werde|wurde|w[uü]rde|h[aä]tte|w[aä]re)\b)"
)
"""No German verb of what one has, knows, thinks or advises."""

_ANNOUNCING = {
    "en": r"\b(i|we)('ll| will| shall|'m going to| am going to|'re going to| are going to)(?! (be (happy|glad|able|"
    r"here|available|sure|more than)|need|require|gladly|happily|assist you|be in touch|let you know|wait)\b)|"
    r"\blet me(?! know\b)|\blet's(?! (assume|say|take an example)\b)|(i|we) (now |still |also |first |then )?(need|"
    r"want|have|should|must) (to )?(now )?(check|look|find|run|read|open|fix|see|update|create|verify|write|add|"
    r"search|edit|test|inspect|cancel|get|make|understand|review|explore|examine|navigate|use|try|install|build|"
    r"modify|change|replace|locate|examine|reproduce|replicate|implement|investigate)|(we|i) should (check|look|"
    r"navigate|open|run|start|try|see|find)|(^|[,;] )(now|next|first|then),? (i'm|i am|we'll|processing|checking|"
    r"running|updating|creating|looking|moving|proceeding|searching)|i('m| am) (now |still |also |"
    r"currently )?(checking|looking|going|running|trying|updating|searching|processing|reviewing|working|starting|"
    r"opening|reading|proceeding|about to|verifying)|(hold on (while|for|a )|one (moment|second)|bear with me|hang on|"
    r"(give|allow) me a (moment|second|minute|few)|just a (moment|second|sec)|stand by|please wait)|(proceeding|"
    r"starting|continuing|moving on|on it)\b(?=[^.]{0,60}$)|working on it|time to (run|check|write|test|fix)|"
    r"^(next up|on to the|now for|off to)\b|^(check|runn|look|updat|fix|creat|read|search|open|install|retry|"
    r"test)ing\b.{0,80}\bnow$",
    "es": r"\b(voy|vamos) a|d[eé]j[ea](me|nme)|perm[ií]t[ea]me|un momento|un segundo|en un instante|^(ahora|"
    r"a continuaci[oó]n|primero|luego|despu[eé]s|entonces|bien|de acuerdo|vale|perfecto|claro|y)?,? ?(mismo )?"
    + _NOT_PAST
    + r"\w{2,}(ar|er|ir|dr|br|rr)(é|emos)\b|(procedo|empiezo|paso) a|estoy (revisando|buscando|ejecutando|"
    r"comprobando)|(^|[;,:] ?|\by )((ahora|a continuaci[oó]n|luego|despu[eé]s|primero),? )?(mismo )?(lo|la|los|las|le|"
    r"te) "
    + _NOT_PAST
    + r"\w{2,}(ar|er|ir|dr)é\b|\biré \w+ndo|(^|[;,:] ?|\b(ahora|mismo|enseguida|as[ií] que|primero|luego|entonces|"
    r"segundo|momento),? (y )?)((lo|la|los|las|te|le) )?(reviso|busco|corrijo|ampl[ií]o|empiezo|ejecuto|compruebo|"
    r"consulto|miro|leo|abro|pruebo|instalo|lanzo|actualizo|a[ñn]ado|agrego|elimino|genero|preparo|analizo|comparo|"
    r"verifico|descargo|traduzco|escribo|sigo|paso|vuelvo|intento|modifico|configuro|despliego|inspecciono|examino|"
    r"extraigo|calculo)\b(?= \w)|\b(lo|la|los|las) (cambio|arreglo|reinicio|borro|hago|corrijo|reviso|compruebo|"
    r"ejecuto|miro|busco|pruebo)\b|(necesito|tengo que|debo|quiero) (leer|revisar|ver|comprobar|mirar|consultar|"
    r"ejecutar|buscar|probar|abrir|entender|verificar|analizar)\b|^toca \w+r\b|^veamos\b",
    "fr": r"\bje vais|\bnous allons|on va\b|laisse[zr]?[ -]moi|permettez[ -]moi|(un|juste un) (instant|moment)|"
    r"^(maintenant|ensuite|d'?abord|tout d'?abord|puis|alors|bien|parfait|d'?accord|enfin)?,? ?je (\w+erai|\w+irai|"
    r"\w+rai|commence|proc[eè]de|lance|v[eé]rifie|passe|regarde|suis en train)\b|je m'appr[eê]te|(^|[,;:*]\W{0,4}|"
    r"\b(maintenant|ensuite|puis|alors|donc|et),? )(je (l'|le |la |les |m'en |m'|vous |te |t'|y )?|j'(en |"
    r"y )?)(?!(ne|n|me|te|le|la|que|pense|trouve|recommande|conseille|sugg[eè]re|constate|confirme|propose|remarque|"
    r"note|rappelle|regrette|esp[eè]re|suppose|pr[eé]f[eè]re|aime|doute|reste|parle|compte|estime|signale|ignore|"
    r"h[eé]site|consid[eè]re|imagine|souhaite|manque|affirme|juge|accepte|refuse|utilise|dispose|"
    r"remercie)\b)(\w{2,}e|lis|relis|reprends|poursuis|traduis|fais|mets)\b|^(essayons|voyons|commen[cç]ons|"
    r"regardons|v[eé]rifions|passons|lan[cç]ons|continuons|poursuivons|allons)\b",
    "de": r"\b(ich|wir) werden?(?! (sie|dich|ihnen|dir) (gern|informieren))\b|werde ich|lass(en)? (sie )?(mich|uns)|"
    r"als n[aä]chstes|einen (moment|augenblick)|(jetzt|nun|zuerst|zun[aä]chst|anschlie[sß]+end|danach|dann) \w+e (ich|"
    r"wir)|\bich \w+e [^.]{0,60}?\b(jetzt|nun|zuerst|zun[aä]chst|gleich|sofort|kurz)\b|ich (beginne|fange|mache mich|"
    r"starte)|(^|[,;:*]\W{0,4})ich "
    + _NOT_A_STATE
    + r"(\w+(?<!t)e|teste|starte|schalte|werte|richte|bearbeite|bereite|leite)\b|\b"
    + _NOT_A_STATE
    + r"\w+(?<!t)e ich (?!nicht\b)|(schauen|sehen|pr[uü]fen) wir|^mal sehen\b",
    "pt": r"(^|[,.] ?|agora |eu |primeiro,? |em seguida,? )(vou|irei|vamos)(?! (ficar|estar))\b|deixe?[ -]me|me deixe|"
    r"um (momento|instante|segundo)|^(agora|em seguida|primeiro|depois|ent[aã]o|certo|ok)?,? ?(eu )?\w{2,}(ar|er|"
    r"ir)ei\b|estou (verificando|executando|procurando|atualizando)",
    "it": r"^(ora|adesso|poi|quindi|prima|innanzitutto|successivamente|bene|perfetto|ok|d'?accord?o?|"
    r"per prima cosa)?,? ?(\w{2,}(er|ir|r)ò|\w{2,}eremo|\w{2,}iremo)\b|(lasciami|mi lasci|permettimi|mi permetta|"
    r"fammi (control|vede|verific))|\b(sto per|vado a|procedo|inizio (a|con)|sto (controllando|verificando|"
    r"cercando))\b|un (attimo|momento|istante)",
    "ru": r"(сейчас|теперь|далее|сначала|затем|потом|следующим шагом|для начала),? (я )?([\w-]+ ){0,3}?[\w-]+(ю|у|ем|"
    r"им)(сь)?\b|\bя (сейчас |теперь )?(проверю|обновлю|запущу|посмотрю|сделаю|исправлю|выполню|создам|открою|"
    r"прочитаю|начну|поищу|найду|добавлю|изменю|буду|собираюсь|приступ)|давайте|позвольте|дайте мне|(одну )?(минуту|"
    r"секунду)|подождите|приступаю|начинаю|^(проверю|обновлю|запущу|посмотрю|сделаю|исправлю|выполню|создам|открою|"
    r"прочитаю|начну|поищу|найду|добавлю|изменю)\b",
    "zh": r"(现在|接下来|下面|马上|随后|首先|先|这就|下一步|然后|稍后|现)[,，]? ?(我|我们|让我|将|会|来|去|就|我来|"
    r"需要|检查|运行|更新|修改|查看|开始|进行)|(我|我们)(现在|接下来|马上|先|将|会(?!很?(高兴|乐意))|来(?!自)|这就|"
    r"再|要|准备|需要|正在|开始|去|得|打算)|(^|[,;] ?|那 ?|那么 ?)我(这边)?(?!的|们|在|是|有|没|不|已|刚|认为|觉得|"
    r"建议|推荐|无|发现|注意|相信|希望|猜|怀疑|估计|也|知道|理解|明白|了解|喜欢|只|共|总|确[认定]|用|测|同意|支持|"
    r"叫|姓|来自|能|可|会|选|爱|很|都|就[能可是]|最|"
    r"[查找看收得遇想做拿读测][到不])(?![^,;]{0,40}(?<![然之最随稍])后)[^,;:了过完]{1,40}$|让我|让我们|请?(稍等|"
    r"稍候|等一下|等待片刻)|正在(为您|查询|检查|处理|运行)|我把[^了过完]{1,30}(一下|再|然后|下来|出来|"
    r"起来)(?!.{0,60}(了|过|完|是))",
    "ja": r"(これから|次に|まず|今から|それでは|では|続いて|さっそく|早速|最後に|引き続き|ここで|今すぐ|次のステップ|"
    r"次の手順|もう一度).{0,80}(ます|ましょう|します|みます)[ねよ]?$|(して(い?き|み|まいり)|を(確認|実行|更新|修正|"
    r"作成|検索|調査|開始|追加|変更|確認いた|実行いた)(いた)?し|見て(み|い?き)|調べ(て(み|い?き))?)ます$|(少々|"
    r"しばらく|少し)お待ち|(しま|み|いき|進め|始め)ましょう$|取り掛かります$|始めます$|"
    r"(^|[、,:] ?)(では|それでは|まずは|次は)?[^はが、,:]{0,80}(を|に|で|て|から)[^はが、,:]{0,16}"
    r"(?<!い)(?<!れ)(?<!でき)(?<!あり)(?<!おり)(?<!なり)(?<!かり)(?<!願いし)(?<!めし)(?<!推奨し)(?<!意味し)"
    r"(?<!表し)(?<!示し)(?<!返し)(?<!含み)(?<!対応し)(?<!了し)(?<!待ちし)(?<!提案し)(?<!報告し)(?<!使用し)(?<!利用し)"
    r"ます[ねよ]?$|^(確認|実行|調査|修正|検索|再試行)(いた)?し?ます[ねよ]?$",
    "ko": r"(이제|지금|먼저|다음으로|우선|곧|그럼|이어서|바로).{0,80}(겠습니다|게요|합니다|봅시다|하죠|할 것입니다|"
    r"예정입니다)$|(?<!알)(?<!되)(?<!좋)(?<![가이] 오)겠습니다$|(볼|할|갈|릴|을|줄)게요$|잠시만|"
    r"기다려 ?(주|줘)|보죠$|봅시다$",
}
"""What says in a sentence that something comes next."""
_CONDITIONAL = (
    r"\b(if|once|when|whenever|as soon as|unless|in case|should you|every time|si|cuando|una vez|d[eè]s que|lorsque|"
    r"quand|wenn|sobald|falls|quando|assim que|se|appena|если|когда|как только)\b|如果|若|一旦|当.{1,12}时|たら|れば|"
    r"なら|場合|하면|으면|시면|경우"
)
"""A sentence about what would be done, not about what is done next."""

_REGRET = (
    r"unfortunately|regrettably|lamentablemente|desafortunadamente|por desgracia|malheureusement|leider|infelizmente|"
    r"purtroppo|к сожалению|很遗憾|残念ながら|유감|안타깝"
)
_APOLOGY = (
    r"i'?m (very |so |really |truly )?(sorry|afraid)|i apologi[sz]e|sorry|lo siento|d[eé]sol[eé]e?|je regrette|"
    r"es tut mir (sehr )?leid|bedaure|desculp[ea]|lamento|sinto muito|mi dispiace|spiacente|извините|простите|сожалею|"
    r"抱歉|对不起|申し訳|すみません|恐れ入りますが|죄송"
)
_CANNOT = (
    r"\b(i|we)('m| am| are|'re)? (currently |afraid i |sorry but i |simply |really |also |still )?(can('t|not| not)|"
    r"(not able|unable) to|wo(n't)|will not|do(n't| not) have (the |any |a )?(access|ability|capability|permission|"
    r"authority|way|means|real|information)|must decline|have to decline|decline|refuse|(not )?(only )?(allowed|"
    r"permitted) to|can only)|\b(this|that|it) (can(no|')t|can not|won't) be done\b|\bi (have to|must|need to|"
    r"will) (say no|turn (this|that|it) down|pass on)\b|\b(isn't|is not|not) something (that )?(i|we)('ll| will| can|"
    r"'m| am)\b|\b(it('s| is)|that('s| is)|this is) (simply |just |technically |currently )?(impossible|"
    r"not possible)\b|\b(i'm|i am|we're|we are) not (going|allowed|authori[sz]ed|permitted|prepared|willing) to\b|"
    r"\b(policy|policies|rules?|terms|guidelines|regulations?|fares?|law) (does|do|will)(n't| not) (permit|allow|"
    r"cover)|\b(policy|policies|rules?|terms|guidelines|law) (forbids?|prohibits?|excludes?)\b|\bthere('s|"
    r" is) nothing (more )?(i|we) can\b|\bno exceptions?( (can|are|is)|$)|\b(reservation|booking|ticket|order|fare|"
    r"refund|flight|account|subscription|purchase|payment|item|passenger)s?\b[^.]{0,80}\b(can(no|')t|can not|"
    r"can no longer|may not) be (modified|changed|cancell?ed|refunded|exchanged|returned|transferred|altered|upgraded|"
    r"reversed|added|reopened)|\b(outside|beyond) (of )?(what i|my (scope|capabilit|remit|abilit))|\bagainst (our|my|"
    r"the|company) (policy|policies|rules|terms|guidelines)\b|\bnot eligible for (a |any )?(refund|cancell|chang|modif|"
    r"compensat|exchang|return|upgrad)|am (not able|unable) to|not comfortable|against my|no (lo |la |le |te |"
    r"se )?puedo|no podemos|no me es posible|me niego|no voy a (?!\w+ (nada|m[aá]s))|no es posible|no tengo acceso|"
    r"no estoy autorizad|je (ne|n') ?(vous |te |le |la |l'|les )?(peux|suis|saurais|dispose|ai pas (le droit|acc[eè]s)|"
    r"\w+rai pas)|je (refuse|d[eé]cline)|je me (refuse|dois de refuser)|nous ne pouvons|"
    r"il (ne )?m'?est (pas )?(im)?possible|(il est |c'est )?impossible (de|d)|(ich|wir) (kann|k[oö]nnen|darf|"
    r"d[uü]rfen)[^.]{0,120}\b(nicht|keine?n?)\b|kann ich[^.]{0,120}\b(nicht|keine?n?)\b|(helfe|mache|tue|schreibe|gebe|"
    r"l[oö]sche|erstelle|werde|unterst[uü]tze|umgehe|[aä]ndere) ich (\w+ ){0,5}nicht\b|ich (werde|"
    r"helfe) [^.]{0,60}\bnicht\b|(buchung|reservierung|ticket|bestellung|fahrkarte|tarif|flug|erstattung|konto|"
    r"vertrag)\w*\b[^.]{0,80}(nicht|keine?\w*) (\w+ ){0,3}(ge[aä]ndert|storniert|erstattet|umgebucht|umgetauscht|"
    r"zur[uü]ckgegeben|gek[uü]ndigt)|(r[eé]servation|billet|commande|tarif|vol|remboursement|"
    r"abonnement)s?\b[^.]{0,80}ne (peu\w+|sont|est|sera) (pas|plus|ni) [^.]{0,20}(modifi|annul|rembours|[eé]chang|"
    r"r[eé]sili)|(reserva|billete|pedido|tarifa|vuelo|compra|suscripci[oó]n|passagem|bilhete)s?\b[^.]{0,80}n(o|"
    r"ã?o) (se )?(puede|admite|permite|pode)\w* (ser )?(modific|cancel|cambi|reembols|devol|alter)|(prenotazione|"
    r"biglietto|ordine|tariffa|volo)\b[^.]{0,80}non (si )?(pu[oò]|possono) (essere )?(modific|annull|cancell|rimbors|"
    r"cambi)|lehne ich ab|ich lehne|ich weigere|ausgeschlossen$|(ist|sind) (leider )?ausgeschlossen\b|(nicht |"
    r"un)m[oö]glich|n[aã]o (posso|podemos|consigo|tenho (acesso|permiss)|[eé] poss[ií]vel|estou autoriz)|non (posso|"
    r"possiamo|sono (in grado|autorizz)|[eè] possibile|mi [eè] possibile|ho accesso)|(я )?не (могу|можем|имею (доступа|"
    r"возможности|права)|в состоянии|вправе)|невозможно|(我|我们)?.{0,6}(无法|不能(?!够)|没办法|没有(办法|权限)|不可以|"
    r"不便|拒绝|恕不|不会(帮|为|替|协助)|做不到)|不得(退|改|转|修|取消|更)|(でき|いたしかね|致しかね|お答えし?かね|"
    r"しかね|お受けでき)(ません|ます|ない)|お断り|承(れ|ることが(でき|出来))ません|応じ(られ|かね)|いたしません$|(할|"
    r"드릴|해드릴|도와드릴|수행할|제공할) 수(가|는)? 없|불가능|어렵습니다|거절|\bi('d| would) rather not\b|\b(i|"
    r"we) (don't|do not) (offer|sell|ship|deliver|accept|price|write|provide|give|share|book|discuss|assist|help)\b|"
    r"\bthere('s| is) no (tool|way|option|means|function|possibility)\b[^.]{0,60}\b(to me|for me|i can|to (merge|do|"
    r"send|undo|recover|restore|change|add|call|book))|\b(is|was|are|were|been) (declined|denied|rejected)\W*$|\b(is|"
    r"are) (strictly )?(prohibited|forbidden|out of the question|non-?refundable)\b|das geht (leider |so |"
    r"hier )*nicht\W*$|\b(nicht|un)(zul[aä]ssig| gestattet| erlaubt)\b|muss ich (leider )?(ablehnen|absagen|"
    r"verweigern)|(wir|ich) (bieten?|liefern?|verkaufen?|akzeptieren?|erstatten?) [^.]{0,60}\b(nicht|keine?n?)\b|"
    r"keine? (berechtigung|befugnis|m[oö]glichkeit)\b|\bno tengo (permiso|forma|manera|autorizaci|la posibilidad|"
    r"c[oó]mo)|\bno (ofrecemos|aceptamos|enviamos|admitimos|realizamos)\b|\b(debo|tengo que) (rechazar|negarme|"
    r"declinar)|\b(nous|on) ne (\w+ons|livre|propose|accepte) (pas|plus|que)\b|\bje (dois|suis oblig[eé] de) (refuser|"
    r"d[eé]cliner)|\bje ne (la |le |les |l')?\w+rai (pas|plus)|hors de question|(不支持|不可以?)(退|换|改|取消)|"
    r"按(照)?规定[^。]{0,20}(不|无)|根据(规定|政策)[^。]{0,20}(不|无)|违反(了)?(规定|政策|法律|条款)|(承って|"
    r"受け付けて|対応して|取り扱って|認めて|行って|お受けして)(おりません|いません)|(権限|方法|手段|機能|ツール)(が|"
    r"は)(ありません|ございません|ない)|禁止されて|\b(have|has) no (access|permission|authority|right|tool)\b|\bi('m|"
    r" am) going to (pass|decline|refuse)\b|\bno est[aá] en (mi|mis) mano|\bno dispongo de\b|\bno me (est[aá]|"
    r"es) (permitid|posible)|\b(cela|[cç]a|ce) (ne|n') ?(m')?est pas (permis|possible|autoris)|\b(fehlt|"
    r"fehlen) mir (leider )?(die|der|das) (berechtigung|zugriff|rechte?|befugnis|zugang)|\bnicht mehr m[oö]glich\b|"
    r"\bnicht zul[aä]ssig\b|\bimpossible de\b|\b(i|we) (don't|do not) (recommend|place|sell|support|make|take)\b|"
    r"\bn'(est|ai|a) (plus|pas) (possible|la main|le droit|la possibilit)"
)
"""Says that the speaker cannot or will not."""
_CANNOT_BE = (
    r"\bthere('s| is| are) no (way|option|possibility|exceptions?|tools?)\b|\b(is|are|it's|was)( not|n't) (possible|"
    r"allowed|permitted|eligible|supported|available)|can(not|'t| not) be|(does|do)( not|n't) (allow|permit|include|"
    r"cover|meet)|not (eligible|permitted|allowed|covered)|no se puede|no (est[aá]|son) permitid|n'?est pas (possible|"
    r"autoris)|ne peu(t|vent) (pas|plus|faire|[eê]tre)|ne (sera|seront|pourra|pourront) pas|n'?est pas permis|"
    r"nicht (m[oö]glich|erlaubt|zul[aä]ssig|gestattet)|(kann|k[oö]nnen) (\w+ ){0,5}(nicht|kein\w*) (\w+ ){0,4}werden|"
    r"n[aã]o (pode|podem|[eé] permitid)|non (pu[oò]|possono|[eè] consentit)|нельзя|не (может|могут|разреш|допуск)|"
    r"不(能|允许|可|支持|符合|得)|无法|できません|できない|없습니다|불가|\b(is|are) (fully booked|sold out|"
    r"out of stock|no longer available|unavailable)\b|\b(does|do)(n't| not) (support|work|let|offer|have)\b|"
    r"\bwon't (be |work)|no (quedan|hay) (plazas|asientos|existencias|disponibilidad)|(ist|sind) (leider )?(ausgebucht|"
    r"ausverkauft|vergriffen|nicht (mehr )?(verf[uü]gbar|lieferbar))|(unterst[uü]tzt|erlaubt) [^.]{0,40}(nicht|kein)|"
    r"(est|sont) (complet|[eé]puis|indisponible)\w*|ne (prend|permet|g[eè]re|propose)\w* pas|(已经?)?(售罄|订满|满员|"
    r"卖完|缺货)|没有(库存|余票|名额)|満席|在庫(が|は)(なく|ない|ございません|ありません)|\b(is|are) (already |"
    r"all )?(taken|gone|fully booked|occupied)\b|締め切って(おり|い)ます|(終了|完売)(して|いたして)(おり|い)ます|"
    r"\bno existe\b|\bn'existe pas\b|\b(sind|ist) (leider )?(alle|bereits|schon) [^.]{0,30}(vergeben|belegt|"
    r"ausgebucht)|満室|満員"
)
"""Says that something cannot be; a refusal only beside an apology, or in the words of `_CANNOT`."""
_SEEKING = (
    r"(can('t|not| not)|could(n't| not)|able to|allowed to) (\w+ )?(find|locate|see|identify|determine|retrieve|"
    r"reach)|encontr|local[ií]z|trouv|finden|trovare|найти|找到|查到|看到|見つ|찾"
)
"""What could not be found is no refusal: the user is asked to help."""

_DONE = (
    r"^\W*((all )?done|perfect|excellent|finished|completed|fixed|success|all set|great news|"
    r"everything)\b(?![^.!]{0,30}\b(need|could|can you))|successfully|^\W*(i('ve| have)|we('ve| have)) (now |just |"
    r"also |already )*(successfully )?(add|updat|creat|fix|implement|chang|remov|writ|renam|refactor|mov|complet|"
    r"finish|built|install|configur|cancel|book|process|sent|delet|replac|merg|commit|set up|appl|deploy|clean|convert|"
    r"resolv|upgrad|schedul|generat|put|made|run)|(has|have) been (now |also )?(add|updat|creat|fix|implement|chang|"
    r"remov|written|renam|refactor|mov|complet|finish|built|install|configur|cancel|book|process|sent|delet|replac|"
    r"merg|commit|set|appl|deploy|sav|issu|upgrad|schedul|generat|resolv|confirm)|(is|are) (now )?(complete|completed|"
    r"done|finished|fixed|in place|confirmed)\b|all tests (pass|are green)|here('s| is) (a |the )?summary of (what|"
    r"the changes|changes|everything)|^\W*(listo|hecho|he (?!encontrado|visto|revisado|buscado|consultado|comprobado|"
    r"recibido)(\w+ado|\w+ido|hecho|escrito|puesto)|termin[eé]|fait|termin[eé]|c'est fait|j'ai (?!trouv|v[eé]rifi|"
    r"cherch|consult|regard|analys)(\w+é(e|s|es)?\b|mis|fait|[eé]crit)|erledigt|fertig|ich habe (?!.*(gefunden|gesehen|"
    r"gepr[uü]ft|gesucht|angesehen))|feito|pronto|conclu[ií]d|fatto|ho (?!trovato|visto|verificato|controllato|"
    r"cercato)\w+(ato|uto|ito)|готово|я (?!наш|вид|провер|посмотр|искал)(\w+л[аи]?)\b|已|完成|好了|搞定|我已|完了|"
    r"できました)|しました|完了し|했습니다|완료|已(经|完成)|완성"
)
"""Reports that the work is done."""

_MARKS = str.maketrans(dict.fromkeys("？﹖︖⁇⁈⁉‽؟⸮⳺⳻፧꘏꛷᥅⹔𑅃❓❔", "?") | dict.fromkeys("’‘ʼ＇`´", "'")) | SIMPLIFIED
"""Question marks of all scripts, apostrophes, and traditional Chinese characters."""
_ARMENIAN = re.compile(r"՞([^։\n]*)։?")
_GREEK = re.compile(r"(?<=[\u0370-\u03ff\u1f00-\u1fff]);")
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?…])[\"')*_\]]{0,4}\s+|(?<=[。!?])(?=[^\s\"')\]」』”])|\n+|(?<=。)")
_ITEM = re.compile(r"\s*(?:[-*•·●▪✓✔✅❌☑]|\(?[a-z]\))\s")
_NUMBER = re.compile(r"\s*\d{1,3}[.)、]\s")
"""The number of an item of a list, which is not the end of a sentence."""
_BOX = re.compile(r"\W{0,4}?(?:(?P<done>\[x\]|[✅☑✔✓])|(?P<open>\[[ ~-]?\]|[⬜☐□◻⏳🔲🚧]))")
"""An item of a checklist."""
_COUNT = re.compile(rf"{report_phrases.COUNT}|{report_phrases.COUNT_OF_ALL}")
_COUNTED = re.compile(simplified(re.sub(r"\?P<\w+>", "?:", report_phrases.COUNTED)))
_OWN_WORDS = re.compile(r"[^\W\d_](?:[^|{}<>]*\s){2}[^|{}<>]*[.!?]\W*$|[^|{}<>]{6,}[。!?]$")
"""A sentence of prose."""
_LEFT_OUT = re.compile(r"\s*(?:#{1,6}\s|\||[-=*_]{3,}\s*$)")
_ANSWERED = re.compile(
    r"(回答|作答|答复|answer(ing)?|directly|respon[ds]\w*|reply|répond\w*|antworte\w*|rispond\w*|отве[тч]\w*|"
    r"答えし?ます|하겠습니다) ?: ?\w"
)
"""An answer that follows its announcement ("I will answer directly: 42")."""
_THOUGHT = re.compile(r"\s*(?:thought|thoughts|discussion|reasoning|plan)s?\s*:", re.IGNORECASE)
_DRESSING = r"*_~>\"'“”«»「」()[] 	"


def is_last_word(kind: TextKind | None) -> bool:
    """Whether a model that says this says that it is done; None stands for a completion call, which does."""
    return kind is None or kind in LAST_WORDS


def classify_text(text: str) -> TextKind:
    """Tell what a text of a model is. It looks at the first and the last `SEEN` characters only."""
    return _classify(text[:SEEN], text[-SEEN:], len(text) > SEEN, len(text) <= _LONGEST_ERROR)


@lru_cache(maxsize=64)  # a decision, its trace and the summary ask about the same text
def _classify(opening: str, closing: str, cut: bool, short: bool) -> TextKind:
    """cut: whether `closing` may begin in mid-text; short: whether the whole text is short enough for an error."""
    beginning = _fold(opening[:400].lstrip())
    if short and _begins("error", beginning):
        return "error"
    if _THOUGHT.match(opening) and closing.rstrip().endswith("```"):
        return "announcement"  # thought and action, as agents write them that call no tools by name
    first, last = _sentences(opening, cut=False)[:_OPENING], _sentences(closing, cut)
    if _begins_as_echo(beginning) and not _concludes(beginning, first, last, closing):
        return "echo"
    asked = _asked(first, last)
    if _declines(first, last, asked):
        return "refusal_with_offer" if asked or _offers(first, last) else "refusal"
    if asked:
        return "question"
    if _is_partial(first, last):
        return "partial"
    return "announcement" if _announces(last, closing) else "answer"


def _concludes(beginning: str, first: list[str], last: list[str], closing: str) -> bool:
    """Whether a text that begins with a tool's result goes on with the model's own words."""
    later = [one for one in last if one not in first[:1]]
    said, colon, _ = beginning.partition(":")
    if not colon or "\n" in said.strip():
        own = any(_OWN_WORDS.match(one) and not _begins_as_echo(one) for one in later[-3:])
        return own or _finds("conclusion", first[0] if first else "")
    paragraph = _fold(_FENCE.sub("", closing).rstrip().rpartition("\n\n")[2])
    if later and "\n\n" in closing and _OWN_WORDS.match(paragraph):
        return True
    return _finds("conclusion", said) or any(_begins("own_words", one) for one in later[-2:])


def _offers(first: list[str], last: list[str]) -> bool:
    """Whether a refusal names something else that the speaker would do."""
    return any(not _finds("more", one) for one in _with("alternative", list(dict.fromkeys((*first, *last)))))


def _is_partial(first: list[str], last: list[str]) -> bool:
    """Whether a text reports of work of which the speaker has done a part and is to do the rest."""
    told = list(dict.fromkeys((*first, *last[-_REPORT:])))
    if any(not _finds("conditional", one) for one in _with("left", told)):
        return True
    counts = [one for one in told if _counts_a_part(one)]
    if any(_COUNTED.search(one) for one in counts):
        return True
    boxes = [box for one in last if (box := _BOX.match(one))]
    opened = any(box["open"] for box in boxes)
    if opened and any(box["done"] for box in boxes):
        return True
    not_yet = _with("not_yet", told)
    if told and _finds("progress", told[0]):
        return bool(not_yet or counts or opened)
    if not not_yet or any(_finds("whole", one) for one in first[:2]):
        return False
    return bool(counts) or _done_before(not_yet[0], told)


def _with(name: str, sentences: list[str]) -> list[str]:
    """The sentences that have one of the phrases."""
    if not _phrases()[name].may_be_in("\n".join(sentences)):
        return []
    return [one for one in sentences if _finds(name, one)]


def _done_before(open_part: str, told: list[str]) -> bool:
    """Whether a part of the work is reported as done before the words that say what is not."""
    before = told[: told.index(open_part)]
    clause = open_part[: _phrases()["not_yet"].find(open_part)]
    return any(_finds("part_done", one) for one in (*before, clause))


def _counts_a_part(sentence: str) -> bool:
    """Whether a sentence counts how much of how much there is, and that is not all."""
    for found in _COUNT.finditer(sentence):
        written = (found["done"] or found["part"], found["all"] or found["whole"])
        done, everything = ("".join(filter(str.isdigit, one)) for one in written)
        if int(done) < int(everything):
            return True
    return False


def _asked(first: list[str], last: list[str]) -> list[str]:
    """The sentences among the last that ask the user for something.

    If the first report that the work is done, what the last offer is not needed to go on.
    """
    found: list[str] = []
    seen = 0
    for sentence in reversed(last):
        if seen == _CLOSING:
            break
        if _is_needed(sentence, first, ends_text=not seen):
            found.append(sentence)
        elif _ITEM.match(sentence) or _is_beside(sentence):
            continue
        seen += 1
    return found


def _is_needed(sentence: str, first: list[str], ends_text: bool) -> bool:
    """Whether a sentence asks for something that is needed to go on."""
    if _finds("proceed", sentence):
        return True
    return _asks(sentence, ends_text) and not (_finds("offer", sentence) and _reports_done(first))


def _reports_done(first: list[str]) -> bool:
    return any(_finds("done", sentence) for sentence in first)


def _asks(sentence: str, ends_text: bool) -> bool:
    """Whether a sentence asks. Where more follows, a question counts only if it is meant for the user."""
    if _finds("more", sentence):
        return False
    request = _phrases()["request"].find(sentence)
    if request >= 0:
        courtesy = _phrases()["courtesy"].find(sentence)
        if courtesy < 0 or request < courtesy or "?" in sentence:
            return True
    bare = sentence.rstrip(_DRESSING + ".。!:")
    if not bare.endswith(("?", *ASKING_ENDINGS)):
        return False
    return ends_text or _finds("to_user", sentence)


def _declines(first: list[str], last: list[str], asked: list[str]) -> bool:
    """Whether a text begins by declining, and asks for nothing afterwards but whether an offer is taken."""
    if not all(_only_offers(sentence) for sentence in asked):
        return False
    for sentence in first:
        sorry = _finds("regret", sentence) or _finds("apology", sentence)
        done = -1 if sorry else _phrases()["done"].find(sentence)
        refused = _refuses(sentence if done < 0 else sentence[:done], bool(asked))
        if refused or (refused is None and (asked or _offers(first, last))):
            return True
        if done >= 0:
            return False
    return False


def _only_offers(sentence: str) -> bool:
    if _finds("proceed", sentence):
        return "let me know" in sentence
    if _finds("agreement", sentence):
        return True
    return (_finds("offer", sentence) or _finds("alternative", sentence)) and not _finds("request", sentence)


def _refuses(sentence: str, asks: bool) -> bool | None:
    """Whether a sentence declines; None if it does so where something else is offered."""
    rest = _sought().sub(" ", sentence) if _finds("seeking", sentence) else sentence
    regrets = _finds("regret", rest)
    if _finds("cannot", rest) or (regrets and asks):
        return True
    if not _finds("cannot_be", rest):
        return False
    return True if regrets or _finds("apology", rest) else None


def _announces(last: list[str], closing: str) -> bool:
    """Whether the text breaks off at a colon, or its last sentence that is no courtesy says what comes next."""
    if closing.rstrip(_DRESSING + "\n").endswith((":", "：")):
        return True
    items = False
    for sentence in reversed(last):
        if _ITEM.match(sentence):
            items = True
        elif not _is_beside(sentence):
            bare = _without_signs_at_the_end(sentence)
            return (bare.endswith(":") or not items) and _says_what_comes(bare.rstrip(":"))
    return False


def _without_signs_at_the_end(sentence: str) -> str:
    """The sentence up to its last letter, digit or colon."""
    end = len(sentence)
    while end and not (sentence[end - 1].isalnum() or sentence[end - 1] == ":"):
        end -= 1
    return sentence[:end]


def _says_what_comes(sentence: str) -> bool:
    found = _phrases()["announcing"].find(sentence)
    if found < 0 or _ANSWERED.search(sentence, found):
        return False
    return _phrases()["conditional"].find(sentence[:found]) < 0


def _is_beside(sentence: str) -> bool:
    """Whether a sentence is a courtesy, or explains the one before it."""
    return _begins("afterthought", sentence) or _finds("more", sentence) or _finds("courtesy", sentence)


def _sentences(part: str, cut: bool) -> list[str]:
    """The sentences of a part, without code, headings and tables. cut: whether the part may begin within code."""
    if cut and part.count("```") % 2:
        part = part.split("```", 1)[1]
    lines = (_NUMBER.sub("- ", line) for line in _FENCE.sub("\n", part).splitlines() if not _LEFT_OUT.match(line))
    pieces = _SENTENCE.split(_fold("\n".join(lines)))
    return [piece for piece in pieces if any(map(str.isalnum, piece)) or "?" in piece]


def _fold(text: str) -> str:
    """Lower case, normal width and simplified characters, with one question mark for all scripts."""
    if text.isascii():
        return text.replace("`", "'").lower()
    text = _GREEK.sub("?", _ARMENIAN.sub(r"\1?", text.translate(_MARKS)))
    return unicodedata.normalize("NFKC", text).casefold()


def _finds(name: str, text: str) -> bool:
    return _phrases()[name].find(text) >= 0


def _begins(name: str, text: str) -> bool:
    return _beginnings()[name].match(text) is not None


def _joined(by_language: dict[str, str]) -> str:
    return "|".join(by_language.values())


@cache
def _phrases() -> dict[str, Phrases]:
    """What is searched for, by name."""
    expressions = {
        "request": "|".join(_REQUESTS.values()),
        "announcing": "|".join(_ANNOUNCING.values()),
        "more": _MORE,
        "courtesy": _COURTESY,
        "offer": _OFFER,
        "to_user": rf"\b(?:{_TO_USER})\b|{_TO_USER_UNSPACED}",
        "conditional": _CONDITIONAL,
        "regret": _REGRET,
        "apology": _APOLOGY,
        "cannot": _CANNOT,
        "cannot_be": _CANNOT_BE,
        "seeking": _SEEKING,
        "done": _DONE,
        "proceed": _PROCEED,
        "agreement": _AGREEMENT,
        "alternative": _ALTERNATIVE,
        "left": _joined(report_phrases.LEFT),
        "not_yet": _joined(report_phrases.NOT_YET),
        "part_done": _joined(report_phrases.PART_DONE),
        "whole": report_phrases.WHOLE,
        "progress": report_phrases.PROGRESS,
        "conclusion": report_phrases.CONCLUSION,
    }
    return {name: Phrases(simplified(expression)) for name, expression in expressions.items()}


_OTHER_SCRIPTS = frozenset({"ru", "zh", "ja", "ko"})
"""Languages of which an ASCII text has no phrase."""


def _echoes(wanted: Callable[[str], bool]) -> re.Pattern[str]:
    """What a repeated result begins with, in some of the languages."""
    phrases = "|".join(written for language, written in report_phrases.ECHO.items() if wanted(language))
    return re.compile(rf"[\W_]{{0,8}}(?:{report_phrases.HERE})?(?:{simplified(phrases)})|<tool_|<function_")


def _begins_as_echo(text: str) -> bool:
    return _begins("echo", text) or (not text.isascii() and _begins("echo_in_another_script", text))


@cache
def _beginnings() -> dict[str, re.Pattern[str]]:
    """What a text or a sentence begins with, by name, compiled on first use."""
    return {
        "error": re.compile(rf"\W{{0,8}}(?:{simplified(_ERROR)})"),
        "echo": _echoes(lambda language: language not in _OTHER_SCRIPTS),
        "echo_in_another_script": _echoes(lambda language: language in _OTHER_SCRIPTS),
        "afterthought": re.compile(_AFTERTHOUGHT),
        "own_words": re.compile(simplified(report_phrases.OWN_WORDS)),
    }


@cache
def _sought() -> re.Pattern[str]:
    return re.compile(simplified(_SEEKING))
