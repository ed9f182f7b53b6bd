"""Tells what a text of a model is: an answer, a question to the user, an announcement, a refusal or an error.

A program that runs an agent reads a response without calls as "done", although most such texts in a conversation ask
the user for something. `classify_text` tells them apart by how the text begins and how it ends. It looks at the first
and the last 2,000 characters only, so that its work is bounded, and never raises.

Each kind has one test, and they are asked in this order:

- *error*: a short text that begins as errors of providers and tools do ("API Error: 529 ...");
- *refusal*: the first sentences decline, and nothing is asked afterwards but whether an offer is taken;
- *question*: one of the last sentences asks the user for something. What merely offers more help does not count;
- *announcement*: the last sentence says what comes next ("Let me run the tests:");
- *answer*: everything else.

Phrases stand in tables by language: English, Spanish, French, German, Portuguese, Italian, Russian, Chinese, Japanese
and Korean. A text in another language is a question if it ends with a question mark of its script, and otherwise an
answer.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal

from .chinese_script import SIMPLIFIED, simplified
from .confirmation import ASKING_ENDINGS
from .phrases import Phrases

TextKind = Literal["answer", "question", "announcement", "refusal", "error"]
"""What a text of a model is, as `classify_text` tells it."""

SEEN = 2_000
"""Characters that are looked at from the beginning of a text, and as many from its end."""
_LONGEST_ERROR = 1_500
"""Most characters of a text that is an error; a longer one reports about errors."""
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
    r"exceeded)|too many requests|you('ve| have) (hit|reached|exceeded) your .{0,30}(limit|quota)|"
    r"you exceeded your current quota|(connection|network|request|gateway|read)( was| has| is)? ?(error|refused|reset|"
    r"timed? ?out|aborted|failed)|(request|call|generation) (failed|error|cancelled by|interrupted)|"
    r"\[request (interrupted|cancelled)|prompt is too long|input is too long|context (length|window) exceeded|"
    r"credit balance is too low|(invalid|incorrect|missing) (api[ -]key|x-api-key|auth)|(model|service|"
    r"server) (is )?(currently |temporarily )?(overloaded|unavailable)|overloaded_error|overloaded$|错误[:(]|"
    r"出错了?[:,]|请求失败|エラー[:(]|エラーが発生|오류[:(]|오류가 발생|erreur ?[:(\d]|fehler ?[:(\d]|errore ?[:(\d]|"
    r"erro ?[:(\d]|ошибка ?[:(\d]"
)

_REQUESTS = {
    "en": r"please,? (also |first |kindly |try to |do |could you )?(provide|confirm|share|specify|tell|choose|select|"
    r"send|enter|give|clarify|double[ -]?check|re-?check|locate|upload|paste|attach|reply|respond|answer|indicate|"
    r"advise|describe|pick|decide|grant|supply|state|list|name|verify (that|your|the|whether)|make sure (the|that|"
    r"your)|review and|approve|authori[sz]e|log ?in|sign ?in|type|let me know (which|what|how|who|whether|where|when|"
    r"the|your|if you('d| would| want| wish| are| still| have)|once|by))|let me know (which|what|how|who|whether|"
    r"where|when (you|it)|your|the|if you('d| would| want| wish)? ?(like|want|wish|prefer)? (to|me to) (go ahead|"
    r"proceed|continue|confirm|do (this|that|it|so)))|(tell|give|send) me (which|what|how|who|whether|where|when|your|"
    r"the|more)|to (go on|proceed|continue|start|begin|help|assist)\b[^.]{0,60}\b(i|we)('ll| will| would|"
    r" still)? need|(i|we)('ll| will| would| still| also| first| just| do)? ?(still |also |first |just )?need (your|"
    r"to (know|confirm)( your|\b)|you to|more (info|detail|context)|some (more |additional |basic )?(info|detail|"
    r"context)|(a few|one|a bit) more|the [\w -]{1,40} (from|of your|you|and|to|in order|before|for)|the following|"
    r"access to|either|confirmation|permission|clarification)|(could|can|would|will) you (please|kindly)|"
    r"waiting for your|once (you have|i have|you('ve| provide)|i get) .{0,60}(please|let me know)|what would you like|"
    r"which (one )?(would|do) you|may i have|before i (proceed|continue|begin|start|go|can)[^.]{0,60}(please|need|"
    r"confirm)|if you (can |could )?(provide|give|share|send|tell)( me)? .{0,120}(i can|i'll|i will|we can)",
    "es": r"por favor,? (indi(que|ca)|proporcion[ea]|confirm[ea]|d[ií](ga|me)|env[ií][ea]|compart[ea]|elija|elige|"
    r"escrib[ea]|especifi(que|ca)|seleccion[ea]|aclar[ea]|facilit[ea]|revis[ea]|haz|hága|comun[ií])|(ind[ií]qu?[ea]|"
    r"d[ií]ga|di|conf[ií]rm[ae]|env[ií][ea]|proporci[oó]n[ea])me |necesito (su|tu|que|saber|conocer|m[aá]s)|"
    r"necesitar[ií]a|(me )?(puede|podr[ií]a|puedes|podr[ií]as) (indicar|decir|proporcionar|confirmar|enviar|dar)",
    "fr": r"veuillez|merci de (m |me |bien |nous )?(\w+er|\w+ir|\w+re)\b|(pouvez|pourriez)[ -]vous|(peux|"
    r"pourrais)[ -]tu|j ?'?ai (encore |aussi )?besoin (de|d|que|du)|(dites|indiquez|donnez|envoyez|confirmez|"
    r"pr[eé]cisez|dis|indique|donne|envoie)[ -](moi|nous)(?! une? (seconde|instant|minute|moment))|"
    r"s'?il (vous|te) pla[iî]t,? (\w+ez|\w+e)\b|il me faut (votre|"
    r"vos|ton|le|la|les)",
    "de": r"bitte (\w+ )?(geben|nennen|teilen|best[aä]tigen|sagen|senden|schicken|w[aä]hlen|pr[uü]fen|gib|nenne?|"
    r"teile?|best[aä]tige?|sage?|sende?|schicke?|w[aä]hle?|pr[uü]fe?|beschreib|beschreiben|laden|lade|entscheiden|"
    r"entscheide|antworten?|um)\b|(teilen|nennen|geben|sagen|schicken|senden) sie (mir|uns)|(teile?|nenne?|gib|sag|"
    r"schicke?) (mir|uns)|(ich|wir) (brauche|ben[oö]tige)n? (noch |daf[uü]r |dazu |zuerst |vorher )?(ihre|deine|die|"
    r"den|das|eine|weitere|mehr|von)|(k[oö]nnen|k[oö]nnten|w[uü]rden) sie (mir|bitte|uns)|(kannst|"
    r"k[oö]nntest) du (mir|bitte|uns)",
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
    "zh": r"请(您|你)?(先|再|问|提供|告诉|告知|确认(一下)?(是否|以下|您|你|要|哪|$)|选择|输入|说明|发送|指定|回复|"
    r"给我|补充|描述|核对|上传|提交|明确|澄清)|(需要|还需要|需)(您|你)(先)?(提供|确认|告诉|的|补充|选择|授权)|麻烦(您|"
    r"你)?(提供|告诉|告知|确认|发)|(是否|要不要|能否|可否|可以)(需要)?(我|继续|告诉我|提供).{0,20}$|您(想|希望|要|"
    r"打算)(要|让|选)?.{0,12}(哪|什么|怎么)",
    "ja": r"(教えて|お知らせ|お聞かせ|ご?確認して?|ご?提供(して)?|ご?指定(して)?|ご?選択(して)?|選んで|お選び|"
    r"入力して|ご?入力|送って|お送り|共有して|ご?共有|お伝え|ご?記入)(ください|下さい|いただけ|頂け|もらえ|願)|(必要|"
    r"知りたい)です(が|ので).{0,12}(お|ご|教|$)",
    "ko": r"(알려|말씀해|제공해|확인해|선택해|입력해|보내|지정해|공유해|골라|설명해|첨부해) ?(주세요|주십시오|주시|줘|"
    r"주실|주겠)|(필요합니다|필요해요)[^.]{0,10}(알려|제공|말씀)|무엇을 (도와|원)",
}
"""Requests to the user that need no question mark."""

_MORE = (
    r"anything else|any ?thing more|(something|anyone) else|any (other |more |further |additional )?(questions?|"
    r"concerns|requests|issues|tweaks|adjustments)|(other|more|further|additional) (questions?|concerns|requests)|"
    r"how (does|did) (that|this) (look|sound)|algo m[aá]s|otra (cosa|pregunta|duda|consulta)|alguna (otra )?(duda|"
    r"pregunta|consulta)|m[aá]s ayuda|no dud[ea]s? en|autre chose|d'? ?autres? (question|demande|besoin)|"
    r"besoin d'? ?(autre|aide)|n'? ?h[eé]sitez pas|n'? ?h[eé]site pas|noch (etwas|was)|sonst noch|weitere[nr]? (frage|"
    r"hilfe|w[uü]nsche|unterst)|weiterhelfen|bei fragen|mais (alguma|algo)|algo mais|outra (d[uú]vida|pergunta|coisa)|"
    r"alguma (outra )?d[uú]vida|mais ajuda|qualquer d[uú]vida|(qualcos'?|nient|qualcosa d'? ?)altro|altr[ei] domand|"
    r"ulterior[ei]|bisogno di (altro|aiuto)|чем[- ](нибудь|то|либо)? ?(ещ[её]|помочь)|что[- ](нибудь|то|либо) ещ[её]|"
    r"ещ[её] (чем|что|вопрос)|(другие|дополнительные) вопрос|обращайтесь|(如果|如|若|要是).{0,6}(还有|有|"
    r"需要)?.{0,4}(其他|其它|任何|别的|更多|进一步|疑问|问题)|还有(什么|其他|其它|别的)|其他.{0,6}(帮|问题|需要)|随时|"
    r"(他|ほか)に.{0,10}(何か|ご|質問|あり|手伝)|何か(あれば|ございましたら|ご不明|他に)|ご不明な?点|お気軽に|"
    r"遠慮なく|いつでも|다른 .{0,8}(도움|질문|필요|문의)|더 (필요|도와|궁금)|추가로 .{0,8}(필요|궁금|도)|"
    r"궁금한 .{0,6}(있|점)|언제든"
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
    r"需要|检查|运行|更新|修改|查看|开始|进行)|(我|我们)(现在|接下来|马上|先|将|会(?!很?(高兴|乐意))|来(?!自)|这就|再|要|"
    r"准备|需要|正在|开始|去|得|打算)|(^|[,;] ?|那 ?|那么 ?)我(这边)?(?!的|们|在|是|有|没|不|已|刚|认为|觉得|建议|"
    r"推荐|无|发现|注意|相信|希望|猜|怀疑|估计|也|知道|理解|明白|了解|喜欢|只|共|总|确[认定]|用|测|同意|支持|叫|姓|"
    r"来自|能|可|会|选|爱|很|都|就[能可是]|最|"
    r"[查找看收得遇想做拿读测][到不])(?![^,;]{0,40}(?<![然之最随稍])后)[^,;:了过完]{1,40}$|让我|让我们|请?(稍等|稍候|"
    r"等一下|等待片刻)|正在(为您|查询|检查|处理|运行)|"
    r"我把[^了过完]{1,30}(一下|再|然后|下来|出来|起来)(?!.{0,60}(了|过|完|是))",
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
    r"permitted) to|can only)|am (not able|unable) to|not comfortable|against my|no puedo|no podemos|no me es posible|"
    r"no es posible|no tengo acceso|no estoy autorizad|je ne (peux|suis|saurais|dispose)|nous ne pouvons|"
    r"il (ne )?m'?est (pas )?(im)?possible|(il est |c'est )?impossible (de|d)|(ich|wir) (kann|k[oö]nnen|darf|"
    r"d[uü]rfen)[^.]{0,120}\b(nicht|keine?n?)\b|kann ich[^.]{0,120}\b(nicht|keine?n?)\b|(nicht|un)m[oö]glich|"
    r"n[aã]o (posso|podemos|consigo|tenho (acesso|permiss)|[eé] poss[ií]vel|estou autoriz)|non (posso|possiamo|"
    r"sono (in grado|autorizz)|[eè] possibile|mi [eè] possibile|ho accesso)|(я )?не (могу|можем|имею (доступа|"
    r"возможности|права)|в состоянии|вправе)|невозможно|(我|我们)?.{0,6}(无法|不能(?!够)|没办法|没有(办法|权限)|"
    r"不可以|不便|拒绝)|(でき|いたしかね|致しかね|お答えし?かね|しかね|お受けでき)(ません|ます|ない)|お断り|(할|"
    r"드릴|해드릴|도와드릴|수행할|제공할) 수(가|는)? 없|불가능|어렵습니다|거절"
)
"""Says that the speaker cannot or will not."""
_ELSEWHERE = (
    r"transfer|human|representative|colleague|instead|alternativ|another (way|option)|agente|operador|conseiller|"
    r"mitarbeiter|operatore|оператор|人工|客服|担当|상담"
)
"""Where a refusal sends the user."""
_CANNOT_BE = (
    r"\bthere('s| is| are) no (way|option|possibility|exceptions?|tools?)\b|\b(is|are|it's|was)( not|n't) (possible|"
    r"allowed|permitted|eligible|supported|available)|can(not|'t| not) be|(does|do)( not|n't) (allow|permit|include|"
    r"cover|meet)|not (eligible|permitted|allowed|covered)|no se puede|no (est[aá]|son) permitid|n'?est pas (possible|"
    r"autoris)|ne peut pas|n'?est pas permis|nicht (m[oö]glich|erlaubt|zul[aä]ssig|gestattet)|n[aã]o (pode|podem|"
    r"[eé] permitid)|non (pu[oò]|possono|[eè] consentit)|нельзя|не (может|могут|разреш|допуск)|不(能|允许|可|支持|"
    r"符合)|无法|できません|できない|없습니다|불가"
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
    r"finish|built|install|configur|cancel|book|process|sent|delet|replac|merg|commit|set up|appl|deploy|clean|"
    r"convert|resolv|upgrad|schedul|generat|put|made|run)|(has|have) been (now |also )?(add|updat|creat|fix|implement|"
    r"chang|remov|written|renam|refactor|mov|complet|finish|built|install|configur|cancel|book|process|sent|delet|"
    r"replac|merg|commit|set|appl|deploy|sav|issu|upgrad|schedul|generat|resolv|confirm)|(is|are) (now )?(complete|"
    r"completed|done|finished|fixed|in place|confirmed)\b|all tests (pass|are green)|here('s| is) (a |"
    r"the )?summary of (what|the changes|changes|everything)|^\W*(listo|hecho|he (?!encontrado|visto|revisado|buscado|"
    r"consultado|comprobado|recibido)(\w+ado|\w+ido|hecho|escrito|puesto)|termin[eé]|fait|termin[eé]|c'est fait|"
    r"j'ai (?!trouv|v[eé]rifi|cherch|consult|regard|analys)(\w+[eé]|mis|fait|[eé]crit)|erledigt|fertig|"
    r"ich habe (?!.*(gefunden|gesehen|gepr[uü]ft|gesucht|angesehen))|feito|pronto|conclu[ií]d|fatto|ho (?!trovato|"
    r"visto|verificato|controllato|cercato)\w+(ato|uto|ito)|готово|я (?!наш|вид|провер|посмотр|искал)(\w+л[аи]?)\b|已|"
    r"完成|好了|搞定|我已|完了|できました)|しました|完了し|했습니다|완료|已(经|完成)|완성"
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
_LEFT_OUT = re.compile(r"\s*(?:#{1,6}\s|\||[-=*_]{3,}\s*$)")
_ANSWERED = re.compile(
    r"(回答|作答|答复|answer(ing)?|directly|respon[ds]\w*|reply|répond\w*|antworte\w*|rispond\w*|отве[тч]\w*|"
    r"答えし?ます|하겠습니다) ?: ?\w"
)
"""An answer that follows its announcement ("I will answer directly: 42")."""
_THOUGHT = re.compile(r"\s*(?:thought|thoughts|discussion|reasoning|plan)s?\s*:", re.IGNORECASE)
_DRESSING = r"*_~>\"'“”«»「」()[] 	"


def classify_text(text: str) -> TextKind:
    """Tell what a text of a model is. It looks at the first and the last `SEEN` characters only."""
    return _classify(text[:SEEN], text[-SEEN:], len(text) > SEEN, len(text) <= _LONGEST_ERROR)


@lru_cache(maxsize=64)  # a decision, its trace and the summary ask about the same text
def _classify(opening: str, closing: str, cut: bool, short: bool) -> TextKind:
    """cut: whether `closing` may begin in mid-text; short: whether the whole text is short enough for an error."""
    if short and _begins("error", _fold(opening[:400].lstrip())):
        return "error"
    if _THOUGHT.match(opening) and closing.rstrip().endswith("```"):
        return "announcement"  # thought and action, as agents write them that call no tools by name
    first, last = _sentences(opening, cut=False)[:_OPENING], _sentences(closing, cut)
    asked = _asked(first, last)
    if _declines(first, last, asked):
        return "refusal"
    if asked:
        return "question"
    return "announcement" if _announces(last, closing) else "answer"


def _asked(first: list[str], last: list[str]) -> list[str]:
    """The sentences among the last that ask the user for something.

    If the first report that the work is done, what the last offer is not needed to go on.
    """
    found: list[str] = []
    seen = 0
    for sentence in reversed(last):
        if seen == _CLOSING:
            break
        if _asks(sentence, ends_text=not seen) and not (_finds("offer", sentence) and _reports_done(first)):
            found.append(sentence)
        elif _ITEM.match(sentence) or _is_beside(sentence):
            continue
        seen += 1
    return found


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
    if not all(_finds("offer", sentence) and not _finds("request", sentence) for sentence in asked):
        return False
    for sentence in first:
        done = _phrases()["done"].find(sentence)
        if _refuses(sentence if done < 0 else sentence[:done], last, bool(asked)):
            return True
        if done >= 0:
            return False
    return False


def _refuses(sentence: str, last: list[str], offers: bool) -> bool:
    rest = _sought().sub(" ", sentence) if _finds("seeking", sentence) else sentence
    regrets = _finds("regret", rest)
    if _finds("cannot", rest) or (regrets and offers):
        return True
    if not _finds("cannot_be", rest):
        return False
    return regrets or _finds("apology", rest) or (offers and any(_finds("elsewhere", one) for one in last))


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
        "elsewhere": _ELSEWHERE,
        "cannot_be": _CANNOT_BE,
        "seeking": _SEEKING,
        "done": _DONE,
    }
    return {name: Phrases(simplified(expression)) for name, expression in expressions.items()}


@cache
def _beginnings() -> dict[str, re.Pattern[str]]:
    """What a text or a sentence begins with, by name, compiled on first use."""
    return {
        "error": re.compile(rf"\W{{0,8}}(?:{simplified(_ERROR)})"),
        "afterthought": re.compile(_AFTERTHOUGHT),
    }


@cache
def _sought() -> re.Pattern[str]:
    return re.compile(simplified(_SEEKING))
