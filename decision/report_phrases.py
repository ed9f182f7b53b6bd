"""Phrases of texts that are no end although they ask for nothing: reports of unfinished work, and repeated results.

Expressions of folded text for `text_kinds.py`, by language: in lower case, with `'` for every quotation mark of code.
"""

LEFT = {
    "en": r"\b(i|we) (still|also) (need|have|must|ought) to\b(?! (know|confirm|ask|hear|get your))|\b(i|we)('ve|"
    r" have) (still |yet )(got )?to\b|\b(i|we) have yet to\b|\b(i|we)('ve| have)(n't| not) (yet )?(started|touched|"
    r"begun|reached|got(ten)? to|looked at|done|finished|processed|migrated|converted|translated|checked|written|"
    r"run|reviewed|tested)\b[^.]{0,60}|\bstill (to do|to come|to go|ahead|outstanding|to be \w+)\b|"
    r"^\W*(still )?(remaining|left|left to do|still to do|todo|to do|to-do|outstanding|not started|not done|"
    r"not yet started|not yet done|in progress|up next|next steps? for me)( (work|steps|tasks|items|files|parts|"
    r"services|modules))?\W{0,4}:(?!\W*(none|nothing|0\b|n/a))|\b(is|are|remains?) (still )?(outstanding|untouched|"
    r"unfinished|unprocessed|undone|not started|to be done|half[ -]?done)\b|\b(is|are) still (ahead|missing|"
    r"to come|left|unchecked)\b|\bwhat('s| is| remains)? (still )?(left|remains|missing|remaining|"
    r"outstanding)\b[^.]{0,40}(\bis\b|\bare\b|:)|\b(half|part|mid)[ -]?way (there|through|done)\b|"
    r"\bbefore i can (give|finish|hand|deliver|report|send|call)\b|^\W*(interim|intermediate|partial|"
    r"preliminary) (result|report|update|status|summary)s?\b|^\W*(work|task) in progress\b|\b(the )?(rest|others?|"
    r"remainder|remaining \w+)( \w+){0,3} (will follow|(is|are) next|(is|are) (still )?(to come|pending|"
    r"not (yet )?(done|started))|(is|are) still)\b|\bi('m| am) (\d+|about \w+|roughly \w+|half[ -]?way|"
    r"partway)( ?%| percent)? (of the way |done|through)|\b(one|two|three|four|five|six|seven|eight|nine|ten|"
    r"\d+) (more )?to go\b|\bstill (uploading|running|processing|downloading|importing|converting|waiting|working|"
    r"migrating|translating|copying|training|indexing)\b|\b[a-z] to [a-z] will follow\b|\bwill follow\W*$|\bi('m|"
    r" am) (currently |now )?(\w+ing) the (rest|others|remaining|second half)\b|\bi('m| am) still (on|at|working|"
    r"going)\b|\b(are|is) still on my\b|\bmore await\b|\bstill (open )?(and )?on my (list|plate)\b|\bi('ll|"
    r" will) still (have|need) to\b|\bi('m| am) still (looking|checking|reading|waiting|working)\b|\bto come\W*$|"
    r"^\W*(status|progress)\b[^.]{0,30}\b\d{1,2} ?%|\bi have not (read|checked|started|done|looked|got)\b|"
    r"\bleft\s?: |\b(one|two|three|four|five|\d+) (more )?(are|is) (still )?(waiting|pending)\W*$",
    "es": r"\b(a[uú]n|todav[ií]a) (me |nos )?(tengo|tenemos|debo|debemos|queda|quedan|falta|faltan|hay) (que )?|"
    r"\b(me|"
    r"nos) (queda|quedan|falta|faltan)\b|\b(queda|quedan|falta|faltan) (a[uú]n |todav[ií]a )?(por|\d+) |\b(faltan?|"
    r"quedan?) (a[uú]n|todav[ií]a|solo)\b|\b(sigue|siguen|queda|quedan|est[aá]n?) (a[uú]n |"
    r"todav[ií]a )?(pendientes?|sin \w+[aei]r)\b(?! de pago)|\b(los |las )?tengo todav[ií]a|\bpor delante\b|(^|"
    r"[.;,] )(s[oó]lo |solo |a[uú]n )?faltan? (los|las|el|la|por|\d+)\b|\bavance parcial\b|\btengo pendientes?\b|"
    r"^\W*(pendientes?|por hacer|falta|restante|queda)\W{0,4}:|\bquedan? para despu[eé]s|\best[aá]n? (a[uú]n |"
    r"todav[ií]a )?en (curso|proceso|marcha)\b(?! de env)|(^|[.;] )por hacer\s?:|\best[aá]n? por \w+[aei]r\b|"
    r"\bvoy por\b",
    "fr": r"\b(il )?(m'|me |nous )(en )?reste\b|\bil (en )?reste (encore |donc )?(à|\d+|deux|trois|quatre|cinq|six) |"
    r"\breste(nt)? (encore )?(à (faire|\w+(er|ir)|\w+(?<!vot)(?<!not)(?<!aut)re)|en attente)\b|\bje (dois|"
    r"n'ai pas) encore\b|\bje n'ai pas (encore|fini|termin)|\bje dois (maintenant |ensuite |toujours )|"
    r"\bon en est à\b|\brestent (les|la|le|l'|\d)|\bsont (encore )?à (faire|traiter|venir)\b|^\W*(reste|restant|"
    r"à faire|à venir|en cours)\W{0,4}:|\b(est|sont) (encore |toujours )?en cours\b(?! d'acheminement)|"
    r"\ben pr[eé]paration\b|\bj'en suis à\b|(^|[.;] )reste\s?:|\bje n'ai pas (encore )?(termin|fini|commenc)",
    "de": r"\b(muss|m[uü]ssen|habe|haben) (ich|wir) (aber |allerdings |nun |jetzt )?noch\b|\b(ich|wir) (muss|"
    r"m[uü]ssen) (\w+ ){0,5}noch\b|\bmuss ich noch\b|\b(steht|stehen|fehlt|fehlen|bleibt|bleiben|folgt|"
    r"folgen) (\w+ ){0,3}noch\b|\b(steht|stehen) noch [^.]{0,60}(aus|an|bevor)\b|\b(fehlt|fehlen) noch|"
    r"\bnoch ((aus|offen|ausstehend)$|zu (tun|"
    r"erledigen|bearbeiten|pr[uü]fen|machen)\b)|\bzwischen(stand|bericht|ergebnis|meldung)\b|^\W*(offen|ausstehend|"
    r"verbleibend\w*|noch offen|noch zu tun|in arbeit)\W{0,4}:|\bkommen (noch|als n[aä]chstes)\b|"
    r"\bsind noch (nicht|unbearbeitet|unver[aä]ndert|offen)\b|\bhabe ich (\w+ ){0,3}noch nicht\b|"
    r"\bich habe (\w+ ){0,6}noch nicht (angefangen|begonnen|bearbeitet|angefasst)|\bl[aä]uft noch\b|"
    r"\blaufen noch\b|\bin bearbeitung\b|\bes (fehlt|fehlen) (noch|nur noch)\b|\bfehl(t|en) (nur )?noch\b|(^|"
    r"[.;:] )offen\W{1,3}\w|\bich bin (gerade )?bei \w+ \d+ von\b|\bnoch nicht fertig\b|\bkommen noch\b",
    "pt": r"\b(ainda|me) (faltam?|restam?|preciso|tenho que|devo|n[aã]o (fiz|comecei|terminei|migrei))\b|"
    r"\bfaltam? (ainda|\d+|os|as) |\brestam? (ainda |\d+ |os |as )|\bcontinuam? pendentes?\b|^\W*(pendentes?|"
    r"faltam?|restantes?)\W{0,4}:",
    "it": r"\b(mi|ci) (resta|restano|manca|mancano|rimane|rimangono)\b|\b(restano|mancano|rimangono) (ancora |"
    r"da |\d)|"
    r"\b(devo|dobbiamo) ancora\b|\bnon ho ancora (iniziato|fatto|finito|toccato|controllato)|\bancora da \w+re\b|"
    r"^\W*(da fare|in corso|rimanenti)\W{0,4}:",
    "ru": r"\b(осталось|остались|осталась|остаётся|остается)\b|\b(мне )?(ещё|еще) (нужно|предстоит|надо|не (сделан|"
    r"начат|готов|перенес))|\b(пока не (начат|сделан|готов|перенес))|^\W*(осталось|не начато|в работе)\W{0,4}:",
    "zh": r"(我)?(还|仍|尚)(需要?|得|要|须)(?!您|你|我)[^,。;]{0,24}(处理|完成|升级|迁移|继续|做|写|补|翻译|测试|"
    r"检查|"
    r"整理|核对|转换|更新|验证|修改|清洗|分析|下载|上传|部署|修复)|(尚未|还未|还没有?|仍未|未)(开始|处理|完成|动|"
    r"迁移|翻译|做|测试|校对|转换|整理|核对|检查|验证|写|修改|修复|分析|接入|升级)|(待|尚待|有待|等待)(处理|完成|"
    r"办(?!事项|清单|列表)|整理|补|验证|迁移|测试|续)|(剩下|剩余|其余|余下|还剩|尚余)[^,。;]{0,30}(没(?!有)|"
    r"没有?(处理|做|动|开始)|未|待|需要|接着|继续|稍后|进行|"
    r"个(?!月|小时|工作日|座位|名额)|部分)|未开始|进行中(?!的)|进度(汇报|更新|报告|:)|阶段性(结果|进展|汇报)|"
    r"完成(了|到|至)?(一半|大半|大约|约)|(完成|做)了?一(半|部分)|正在(导入|处理|迁移|翻译|生成|整理|下载|上传|转换|"
    r"训练|编写|修改|分析)(?!.{0,12}(问题|原因))|(后端|前端|其他|剩下的|后面的?)[^,。]{0,12}还没(动|做|写|改)|"
    r"(第[一二三四五六七八九十\d]+个?|后面的?|剩下的?)[^,。]{0,8}还在|(目前|现在)?(处理|做|翻译|检查|写)到(了)?第|"
    r"还在(做|处理|写|改|跑|进行)|(另外|其余|剩下|余下)[^,。]{0,8}待",
    "ja": r"(残って|残ってい|残り(は|の)[^。]{0,40}(これから|続け|進め|未|直し|必要|処理)|残り\d+(件|章|本|個|つ|社|"
    r"ファイル)?[^。]{0,30}(未|まだ|これから|続|進|直))|(まだ|未)[^。]{0,20}(できて(い|お)|終わって(い|お)|"
    r"済んで(い|お)|手を付け|手をつけ|着手して|完了して(い|お)|移行して|確認して|対応して|翻訳して)[^。]{0,4}(ない|"
    r"ません)|これからです|これから(着手|取り|行|進)|未(着手|対応|処理|完了|実施|移行|翻訳)|作業中|途中経過|"
    r"中間報告|進捗(状況|報告|です|:)|進行中|引き続き[^。]{0,30}(必要|予定|続け|進め)|(必要|予定)があ(ります|"
    r"る)。?$(?<=直していく必要があります)|半分(まで|ほど|が|終)|(まだ)?途中です|(まだ)途中",
    "ko": r"(남아 ?있|남았|남은 (작업|파일|항목|것|부분)|아직 (완료|처리|시작|진행|끝나|하지|마치|착수)[^.]{0,12}(않|"
    r"못)|진행 ?중(입|이)|미완료|미착수|중간 ?보고|진행 ?상황)",
}
"""Says that a part of the work is left, and that the speaker is to do it."""

NOT_YET = {
    "en": r"\bstill (has|have|needs?) to (be|happen|come|run|go)\b|\b(have|has)(n't| not)( yet)? been \w+|"
    r"\bnothing has \w+|(?<!you )\b(is|are) being \w+|\b(have|has)(n't| not) \w+ed (yet|so far)|\b(not|nobody|"
    r"nothing|none|no|never)\b[^.;]{0,60}\byet\b|n't\b[^.;]{0,60}\byet\b|\bhas?(ve)? not been \w+|\b(mid|"
    r"half)-\w+|\b(isn't|is not|aren't|not) "
    r"(finished|done|complete)\b|\bstill (failing|broken|red|stubs?|wrong|missing|half|untested|todo|on (the|my)|"
    r"fails?|import)\b|\bwhat's left\b|\b(is|are|was|were|has|have)(n't| not)( been)?( \w+){0,2} yet\b|"
    r"\bnot( yet)? (been )?(\w+ed|done|started|"
    r"written) yet\b|\bnot yet (been )?(\w+ed|done|started|written|complete)|\b(remain|remains) (on the old|to be|"
    r"undone|unfinished|untouched|unprocessed)\b|\bstill needs? to be \w+|\buntouched\b|\b\d+ (\w+ ){0,2}(left|"
    r"to go)$|\bis about \d+ ?%|\b(is|are)( still)? not\W*$|\b(is|are)(n't)\W*$|\bnot yet\W*$|\bnot started\b|"
    r"\bnot finished\b|\bthe rest is (running|queued|in progress)\b|\bi haven't got\b|\b(is|are) still (open|"
    r"running|in progress|on the old)\b|\bpending\W*$|\bare not\W*$",
    "es": r"\b(me )?l[oa]s? dejo\b|\bnada de\b|\bse est[aá]n? \w+ndo\b|\b(a|por) la mitad\b|(^|"
    r"[;:.] )\W*(quedan?|faltan?) |\b(a[uú]n|todav[ií]a) (sin|en|por|est[aá]n?|queda|falta)|\bno (he|"
    r"est[aá]) (terminad|acabad|complet)\w*|\baún no\b|\baun no\b|\btodavía no\b|\btodavia no\b|\bpendientes?$|"
    r"\bsin (hacer|empezar|terminar|revisar|"
    r"migrar)\b",
    "fr": r"\b(attend|attendent|manque|manquent|restent?) encore\b|\bencore (rien|à)\b|\btoujours pas\b|"
    r"\brien (n'|ne |encore)|\best en (train|passe)\b|\bpas encore\b|\bà faire$|\ben cours$|\ben attente$|"
    r"\ben revanche, (\w+ ){1,4}(n'est|ne sont) pas\b",
    "de": r"\bnoch (nichts|keine?\w*|in arbeit|im gange)\b|\bwird (gerade|derzeit|noch)\b|\bwerden (gerade|"
    r"derzeit|noch)\b|\bzur h[aä]lfte\b|\bnoch nicht\b|\b(offen|ausstehend|in arbeit)$|"
    r"\bnoch\b[^.]{0,40}\bunver[aä]ndert",
    "pt": r"\bainda não\b|\bainda nao\b|\bpendentes?$",
    "it": r"\b(non|non è) ancora\b|\bin sospeso$|\bda fare$",
    "ru": r"\b(ещё|еще|пока) не\b|\bв процессе$",
    "zh": r"(另外|其他|剩)[^。]{0,12}(才|再|要)|没(补|动|开|轮|做|写|跑)|开发中|还(差|缺)|(后面|其余|"
    r"剩下)[^。]{0,12}(没动|没做|要处理|要做|待)|到一半|还没|尚未|仍未|还停留|剩下的",
    "ja": r"これから|あと ?\d+|手つかず|まだ",
    "ko": r"아직|남은",
}
"""Says that something is not done; a report of unfinished work where another sentence or clause says what is done."""

PART_DONE = {
    "en": r"^\W*(\w+ ){0,3}\w+ed\b|\b(is|are|was|were|has been|have been|now|been) (now |all |both |"
    r"fully )?(\w+ed|done|complete|clean|"
    r"in place|written|through|up|finished|matched)\b|\b(i|we)('ve| have)?( now| already)? (\w+ed|done|set|"
    r"written|read|found|taken|gone|seen|"
    r"built|put|made|got|run|sent)\b|^\W*(\d+ (of|out of|/)|done\b|completed?\b|finished\b)|\bso far\b|\b(phase|"
    r"step|batch|stage|part|chunk|chapter|section|milestone)s? \d+",
    "es": r"^\W*(\w+ ){0,4}\w+(ad|id)[ao]s?\b|\b(he|hemos|est[aá]n?|ha|han|queda|quedan|ya) (ya )?\w+(ado|ada|"
    r"ados|adas|ido|ida|idos|idas|hecho|"
    r"listos?)\b|\bde momento\b|\bpor ahora\b|\bhasta ahora\b|: (hech[oa]|list[oa]|complet\w+)s?$|\bya est[aá]n?\b",
    "fr": r"^\W*(\w+ ){0,3}\w+ée?s?\b|\bj'ai (d[eé]j[aà] )?\w+[eéits]\b|\b(est|sont|ont [eé]t[eé]|"
    r"a [eé]t[eé]) (d[eé]j[aà] )?(\w+[eé]e?s?|fait|"
    r"faits)\b|\bpour l'instant\b|\bjusqu'ici\b|: (fait|termin[eé]|ok)e?s?$|\bavancement\b",
    "de": r"^\W*([\w-]+ ){0,4}(ge|um|aus|ab|ein)\w+t\b|\b(ist|sind|wurden?|habe|bisher|bislang|schon|"
    r"bereits)\b[^.]{0,60}(ge\w+t|ge\w+en|\w+iert|fertig|durch|"
    r"abgeschlossen|erledigt|umgestellt|\w+t)\b|: (erledigt|fertig|abgeschlossen)$",
    "pt": r"\b(j[aá]|foi|foram|at[eé] agora|por enquanto|est[aá]|est[aã]o) \w+|: (feito|conclu[ií]do|pronto)$",
    "it": r"\b(ho|è stat\w|sono stat\w|finora|per ora|già) \w+|: (fatto|completato|pronto)$",
    "ru": r"\b(готов\w*|сделан\w*|перенес\w*|заверш\w*|обработан\w*|пока что|на данный момент)\b",
    "zh": r"(完|好)了?[,。;]|已|完成了?|好了|目前|截至",
    "ja": r"(ました|完了|済み|済んで|ここまで|終わり)",
    "ko": r"(했습니다|완료|마쳤|지금까지)",
}
"""Says that a part is done."""

WHOLE = (
    r"\bsuccess(fully)?\b|\ball (of )?(the |your |my )?(tasks?|requested|changes|modifications|requests?|steps|items|"
    r"done|\d+)\b|\beverything\b|\b(the )?(task|implementation|work|request|fix|migration|upgrade|order|job|"
    r"refactoring) (is|has been|was) (now )?(complete|completed|done|finished)\b|\bsummary\b|\bconfirmed\b|"
    r"\bhere's what\b"
)
"""Reports the work as a whole."""
PROGRESS = (
    r"^\W*(progress|status) (update|report|so far)\b|^\W*(current|present) (state|status|progress)\b|"
    r"^\W*progress\W{0,4}(:|$)|^\W*so far\b|^\W*(estado actual|avance|progreso)\b|^\W*(point|[eé]tat) d'avancement|"
    r"^\W*avancement\b|^\W*(aktueller stand|stand der dinge|fortschritt|bisheriger stand)\b|^\W*(stato attuale|"
    r"avanzamento)\b|^\W*(ход работы|прогресс|текущий статус|промежуточный)|^\W*(当前进度|进度|目前进展|现状)|"
    r"^\W*(現在の(状況|進捗)|進捗)|^\W*(현재 (상황|진행))"
)
"""Begins a report of progress; of unfinished work only if something in it is open."""

UNIT = (
    r"(step|phase|batch|stage|part|chunk|milestone|task|section|chapter|round|iteration|item|file|page|module|"
    r"schritt|"
    r"phase|teil|etappe|paso|fase|bloque|lote|parte|[eé]tape|partie|lot|этап|шаг|часть|passo)s?"
)
"""What work is counted in: `step 2 of 5`."""
WORKED = (
    r"(?:migrat|transcrib|process|translat|convert|complet|finish|done|label|annotat|upload|download|import|export|"
    r"index|port|updat|check|review|scrap|crawl|render|clean|summari|tagg|analy|scann|draft|patch|upgrad|deploy|"
    r"document|refactor|fetch|extract|pars|generat|written|read\b|booked|sent\b)"
)
"""Says after a count what was done."""
NUMBERS = {
    word: number
    for words in (
        "one two three four five six seven eight nine ten eleven twelve",
        "eine zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "una dos tres cuatro cinco seis siete ocho nueve diez once doce",
        "une deux trois quatre cinq six sept huit neuf dix onze douze",
        "一 两 三 四 五 六 七 八 九 十 十一 十二",
    )
    for number, word in enumerate(words.split(), 1)
}
"""Numbers in words."""
_WORDS = "|".join(sorted(NUMBERS, key=len, reverse=True))
_NUMBER = rf"\d[\d.,' ]{{0,12}}?|(?:{_WORDS})(?![^\W\d_]) ?"
COUNT = (
    rf"(?P<done>{_NUMBER}) ?(?:[^\W\d_]{{2,20}} )?(?:/|of(?: the| all)?|out of(?: the)?|von(?: den| insgesamt)?|"
    rf"der|des|de(?: los| las)?|sur(?: les)?|di|"
    rf"из) ?(?P<all>\d[\d.,']{{0,12}}|(?:{_WORDS})\b)"
)
COUNT_OF_ALL = (
    r"(?:(?P<whole>\d[\d.,]{0,12}|[一两三四五六七八九十]{1,2}) ?[^\d\s。,]{1,8}(?:のうち|中的?|当中|"
    r"里)[^\d。]{0,10}"
    r"(?P<part>\d[\d.,]{0,12}|[一两三四五六七八九十]{1,2})|\b(?:von|of|de|sur)(?: den| the| los| las|"
    r" les)? (?P<every>\d{1,9}) [^\d.。]{1,60}\b(?P<some>\d{1,9})\b)"
)
"""How much of how much is done, in this order or in the other."""
COUNTED = (
    rf"\b{UNIT} {COUNT}|^\W*{COUNT} (?:[^\W\d_]+ ){{0,4}}?{WORKED}|完成了? ?{COUNT}|"
    rf"\b(?:llev[oa]\w*|van|bisher|bislang|so far|hasta (?:ahora|el momento)|jusqu'ici|pour l'instant|up to now)\b"
    rf"[^.。]{{0,60}}?{COUNT}|(?:目前|截至)[^。]{{0,30}}{COUNT}|"
    rf"{COUNT_OF_ALL}[^。]{{0,12}}(?:完了|終わ|終え|済|完成|处理|翻译|迁移)"
)
"""A count that reports progress by itself."""

REMAINDER = (
    r"\b(the )?(rest|remaining|remainder|others?|last|final|next)\b|\b(queda|quedan|faltan?|restan?|restantes?|"
    r"resto|dem[aá]s|otr[oa]s|"
    r"[uú]ltim[oa]s|siguientes?)\b|\b(restent?|restants?|restantes|autres|derni[eè]re?s|prochaine?s?)\b|"
    r"\b(rest\w*|[uü]brig\w*|letzten?|anderen|"
    r"n[aä]chste[nr]?|fehl(t|en))\b|残り|残る|剩|其余|其他|余下|后面|另外|下一|还有"
)
"""Names what is left."""
UNNEEDED = (
    r"\b(not|never)( \w+)? need|n't need|\b(un(changed|affected|related)|needs? no(ne|t)?|no need|required no|"
    r"already|skip\w*|no changes?|same|duplicates?|false|fine|"
    r"[uü]bersprungen|unver[aä]ndert|unn[oö]tig|bereits|sin cambios|ya|inchang[eé]\w*|d[eé]j[aà])\b|无需|不需要|"
    r"不用|跳过|不要でし"
)
"""Says that what is left needs nothing."""
COMES_NEXT = (
    r"\b(i|we) (pick up|continue|carry on|resume)\b|\b(comes?|is|are) (next|after)\b|\bafter that\b|\b(en ello|"
    r"en eso)\b|"
    r"\b(van|va|vienen|viene) (despu[eé]s|luego)\b|\b(viendra|viendront|suivra|suivront|viennent ensuite)\b|"
    r"\bmache ich (\w+ ){0,4}weiter\b|\bgeht es weiter\b|"
    r"\b(folgt|folgen|kommt|kommen) (\w+ ){0,3}(danach|dann|sp[aä]ter|noch|dran)\b|(随后|之后|再)(轮到|处理)"
)
"""Says which part of the work comes next."""

OPEN_STATE = (
    r"(still |yet )?(pending|open|to[ -]?do|not( yet)? (started|done|begun|touched|\w{1,20}ed)( yet)?|not yet|"
    r"in progress|wip|ongoing|under ?way|running|queued|waiting|remaining|"
    r"outstanding|missing|next( up)?|half[ -]?done|started|to be \w{1,20}|incomplete|unfinished|tbd|untouched|later|"
    r"partly \w{1,20}|failing|broken)|still [^.]{1,60}|"
    r"(noch )?(offen|ausstehend|in arbeit|l[aä]uft|in bearbeitung|unvollst[aä]ndig)|noch [^.]{1,40}|"
    r"nicht (begonnen|angefangen)|(fehlt|steht|l[aä]uft)( noch)?( aus)?|folgt|"
    r"(a[uú]n |todav[ií]a )?(pendientes?|en (curso|proceso|marcha)|por \w{1,20}r|faltan?|sin (hacer|empezar|terminar|"
    r"revisar|probar)|a medias)|"
    r"(encore )?(en (cours|attente)|à (faire|venir|\w{1,20}er)|pas (encore )?(\w{1,20} ){0,2}\w{1,20}|"
    r"reste à \w{1,20})|"
    r"(未|待|还没|尚未|没(有)?(开始|做|动))\w{0,8}|(正在)?(进行|处理|翻译|迁移|测试|编写)中|作業中|対応中|"
    r"これから|まだ\w{0,10}|(確認|実装|実施|処理|翻訳|移行|テスト)?待ち|途中|[⏳⬜☐🔲🚧⌛]\ufe0f?"
)
"""What is said of an item of a list that is not done."""
DONE_STATE = (
    r"(all )?(done|complete|finished|ok|okay|yes|live|ready|green|in place|\w{1,20}ed|written|sent|built|passing)|"
    r"(ist |sind )?(fertig|erledigt|abgeschlossen|ja|ge\w{1,20}t|"
    r"\w{1,20}iert|um\w{1,20}t|durch)|(ya )?(hech[oa]s?|list[oa]s?|complet\w{1,20}|s[ií]|\w{1,20}[ai]d[oa]s?)|"
    r"(fait|fini|termin[eé]|"
    r"ok|oui|\w{1,20}é)e?s?|已\w{1,8}|完成|\w{0,6}(完成|完了|完毕|好了|通过)|"
    r"(\w{0,6})(済み?|できました|終わりました|完)|[✅✓✔☑]\ufe0f?"
)
"""What is said of an item of a list that is done."""

ECHO = {
    "en": r"<(tool_(response|result|output)s?|function_results?|function_response|stdout|stderr|output|result)\b|"
    r"\[?tool (result|output|response)s?\]?( \([^)]{0,60}\))?( (of|for|from) [^:\n]{0,80})?\s?:|(here (is|are) |"
    r"this is )?(the |raw |full |complete |console |terminal |shell |command |program |query |tool |function |api |"
    r"script )*(output|stdout|stderr|standard output|return value|returned value|response body|exit code|"
    r"exit status)( (of|from|for|by)\b[^:\n]{0,100})?( (is|was|reads|follows|below))?\s?[:\n]|(here (is|"
    r"are) )?(the )?(raw )?(result|response|reply|contents?|data|answer)s? (returned |received |"
    r"that came back )?(of|from|by) (calling |running |executing |the )*('[^'\n]{1,80}'|\w+_\w+|\w+\(\)|"
    r"(\w+ )?(tool|command|call|function|query|api|endpoint|request|script|file)\b)[^:\n]{0,60}:|(the |this |your |"
    r"my |a |that )?([\w'./-]+ ){0,3}?(tool|function|command|query|call|request|api|endpoint|search|lookup|script|"
    r"program|server|shell|terminal|service|process)\b[^.:\n]{0,80}?\b(returned(?! to\b)|gave back|responded|"
    r"answered|replied|printed|(?<!its )(?<!the )(?<!and )output|outputted|produced|yielded|wrote|came back|"
    r"sent back|found \d+ (results|matches|rows|items|records|entries)\b(?=[^.\n]{0,40}:)|exited|(finished|ended|"
    r"completed|terminated) with (exit|return|status|code))\b|(calling|running|executing|"
    r"invoking) [^.:\n]{1,100}\b(returned|printed|gave|produced|yielded|exited|output)\b|(i |we )?(ran|executed|"
    r"called|invoked) '?[^.:\n]{1,80}'?(, | and |; )(it |which |that |got )?(returned|printed|back|exited|output|"
    r"gave)\b|('[^'\n]{1,80}'|\w+_\w+(\([^)\n]{0,60}\))?|\w+\([^)\n]{0,60}\))(\s(for|on|"
    r"with)\s[^.:\n]{1,60}?)?,? ?(has )?(returned|says|said|output|outputs|printed|prints|produced|gave|responded|"
    r"exited|reported|:(?= ?[\n{\[<]))|\w+ (produced no output|printed nothing|exited with|returned\s?:|"
    r"returned (nothing|no output|true|false|null|none|an? empty|\d|[{\[<\"']|:))|http(/[\d.]+)? ?[123]\d\d\b|"
    r"status( code)?:? [123]\d\d\b|(exit|return) code:? ?\d|[\w.'(){}\":,=/-]{2,80} ?(→|->|=>|⇒) ?[{\[\"'\d<]|"
    r"(i )?(ran|executed|called) '[^'\n]{1,80}'[.:,] (the )?(output|result)s?( was| is)?\s?:|(received|"
    r"got)( back)? (the following |this |back |a )*(response|output|result|reply)\b[^.:\n]{0,60}:|"
    r"nothing was (returned|printed)|\$ [a-z]|search results?( for [^:\n]{1,80})?:|(query|lookup|search|database|"
    r"api|request|call|file|tool|test) (result|output|response|content)s?( \([^)\n]{0,30}\))?\s?[:\n]|"
    r"exit status:? ?\d|contents? of '?[\w./-]{2,80}'?\s?:|(file|page) contents?\s?:|the following (was|"
    r"is what was) (returned|printed|reported)|\w+ (printed|prints|reported|says|said) ['\"“]|(the )?(call|request|"
    r"command|query) (succeeded|failed|completed|finished|worked)( successfully)? (with|without|and)\b|no output\b|"
    r"\(no output\)|'?\w+'? gave me (this|the following)|[\w.]+\([^)\n]{0,60}\) (returned|came back|gave|printed)|"
    r"\w+_\w+ (came back|shows|got|answered)|(the )?(api|http|server|tool|command|function|query|service|"
    r"endpoint)('s)? (response|reply|answer|output|result)s? (was|is|were|reads|contain)|(command|process|script|"
    r"tool|job)( has| is)? (finished|completed|done|exited)\W{1,3}(the )?(output|result)|'[^'\n]{1,80}' (shows|"
    r"lists|reads)\s?:|according to (the )?(tool|api|command|output|function|query|response)[^:\n]{0,40}:|"
    r"(the )?(request|call)( to [^.:\n]{1,60})? (got|received|was answered with)\b|(result|output|response|"
    r"value)s?\s?:\s?[{\[<]|(ls|cat|grep|git|find|df|du|ps|pwd|curl|head|tail|wc|npm|pip|python3?|make|docker|"
    r"kubectl)\b[^:.\n]{0,60}:\n|observation\s?:|\[tool_(result|output)s?\]|(executed|ran|"
    r"done)[.:,] (the )?(output|result)\s?:|(the )?(file|page|message) has been read\b|(i )?(got|"
    r"received)( back)?\s?:? ?[{\[<]|what came back\b|(returned|received|printed|got|fetched)\s?:|it (returned|"
    r"printed)\b|(the )?(\w+ )?(tool|api|command|sensor|server) (says|lists|shows|reports) |(the )?(lookup|search|"
    r"query|call|request)( for [^.:\n]{1,60})? (gave|returned|found) (no |nothing|\d)|response code:? [123]\d\d\b|"
    r"'[^'\n]{1,80}' reports?\s?:|query ok\b|(tool|function) call '?[\w.]+'? (completed|finished|returned)\b|"
    r"(the )?logs? (shows?|says?|reads?)\s?:|([\w-]+ ){1,2}output\s?[:\n]|console\s?:|(→|⇒) ?[{\[<\"'\d]|"
    r"(the )?(website|site|page|url|host) returned \d|\w+\([^)\n]{0,60}\) ?(=|→) ?[\w{\[\"']|(the )?\w+_\w+ (call|"
    r"tool|function) (shows|gives|lists|says)\b|what the (tool|command|call|api) (gave|returned|sent|said)",
    "es": r"(la |el )?(salida|respuesta|resultado|contenido|valor) (devuelt[oa] |obtenid[oa] |est[aá]ndar |"
    r"completa )?(por |del?|de la|de los|de)? ?(la |el |ejecutar |llamar a )?(comando|herramienta|funci[oó]n|"
    r"llamada|consulta|script|api|servidor|archivo|fichero|orden|'|\w+_\w+)[^:\n]{0,80}( es| fue)?\s?:|(salida|"
    r"stdout|c[oó]digo de (salida|estado))\s?:|(la |el |una )?([\w']+ )?(herramienta|comando|funci[oó]n|consulta|"
    r"llamada|api|script|servidor|orden|b[uú]squeda|petici[oó]n|solicitud)\b[^.:\n]{0,80}?(devolvi[oó]|"
    r"devuelve( lo siguiente|\s?:)|ha devuelto|respondi[oó]|ha respondido|imprimi[oó]|ha impreso|mostr[oó]|produjo|"
    r"dio como|arroj[oó]|(termin[oó]|finaliz[oó]|sali[oó]|acab[oó]|ha terminado) con (el |un )?(c[oó]digo|estado))|"
    r"('[^'\n]{1,80}'|\w+_\w+) (ha )?(devolvi[oó]|devuelve|devuelto|respondi[oó]|imprimi[oó])|(ejecutar|llamar a|"
    r"al (ejecutar|llamar))[^.:\n]{1,80}(devolvi[oó]|devuelve|se obtuvo|imprime)|(resultados?|"
    r"respuesta) de (la )?(b[uú]squeda|consulta)[^:\n]{0,60}:|sin salida\b|(respuesta|resultado)s?( recibid[oa]s?|"
    r" obtenid[oa]s?)?\s?:\s?[{\[<]|(los )?datos (devueltos|recibidos)\b[^:\n]{0,30}:|(la |el )?(consulta|"
    r"b[uú]squeda|llamada) (dio|no dio) |se (obtuvo|recibi[oó]|devolvi[oó])\s?:|devuelto\s?:",
    "fr": r"(la |le |voici (la |le )?)?(sortie|r[eé]sultat|r[eé]ponse|contenu|valeur|retour) (brute? |renvoy[eé]e? |"
    r"standard )?(par |de la |du |de l'|de |d'|obtenu\w* )?(la |l'|le )?(commande|outil|fonction|appel|requ[eê]te|"
    r"script|api|serveur|fichier|'|\w+_\w+)[^:\n]{0,80}\s?:|(sortie( standard)?|code (de (sortie|retour))|"
    r"stdout)\s?:|(l'|la |le )?(outil|commande|fonction|appel|requ[eê]te|api|script|serveur|recherche|"
    r"service)\b[^.:\n]{0,80}?( a renvoy| renvoie| a retourn| retourne| a affich| affiche|s'est (termin|achev|"
    r"conclu)\w+ (avec|sur)| a r[eé]pondu| a produit| a donn| a [eé]chou[eé] avec le code)|('[^'\n]{1,80}'|"
    r"\w+_\w+) (a )?(renvoy|renvoie|retourn|affich|r[eé]pond)|r[eé]sultats? de (la )?(recherche|"
    r"requ[eê]te)[^:\n]{0,60}:|aucune sortie\b|(r[eé]ponse|r[eé]sultat)s?( re[cç]ue?s?| obtenue?s?)?\s?:\s?[{\[<]|"
    r"ce que (renvoie|affiche|retourne) (l'|la |le )|(reçu|renvoyé|retourné|obtenu)\s?:",
    "de": r"(die |das |der )?(ausgabe|r[uü]ckgabe(wert)?|antwort|ergebnis|inhalt|r[uü]ckmeldung|"
    r"standardausgabe) (von|"
    r"des|der|vom|aus) (dem |der |des |den )?('|\w+_\w+|befehls?|tools?|werkzeugs?|aufrufs?|funktion|abfrage|"
    r"skripts?|api|servers?|kommandos?|datei|schnittstelle)[^:\n]{0,80}\s?:|(ausgabe|r[uü]ckgabewert|exit-?code|"
    r"stdout|standardausgabe|fehlerausgabe)\s?:|(das |der |die |ein )?([\w'-]+ )?[\w-]*(werkzeug|tool|befehl|"
    r"aufruf|funktion|abfrage|skript|api|suche|server|kommando|schnittstelle|programm)\b[^.:\n]{0,80}?\b(lieferte?|"
    r"ergab|gab|hat [^.\n]{0,80}(zur[uü]ckgegeben|ausgegeben|geliefert|zur[uü]ckgeliefert)|meldete|antwortete|"
    r"(wurde|ist|hat sich|endete) [^.\n]{0,20}(exit|code|status|r[uü]ckgabe))|('[^'\n]{1,80}'|\w+_\w+) (lieferte?|"
    r"gab|ergab|hat [^.\n]{0,60}(zur[uü]ckgegeben|ausgegeben|geliefert))|(such|"
    r"abfrage)ergebnisse?( f[uü]r [^:\n]{1,60})?\s?:|inhalt (von|der datei) [^:\n]{1,60}:|"
    r"r[uü]ckgabe( von [^:\n]{1,60})?\s?:|keine ausgabe|(ergebnis|antwort|r[uü]ckgabe)( erhalten)?\s?:\s?[{\[<]|"
    r"ausgabe (des|der|vom|von)\b[^:\n]{0,60}:|(zur[uü]ckgegeben|geliefert|ausgegeben|empfangen|erhalten) (wurden?|"
    r"habe ich)?\s?:|was (das|der|die) \w+ (zur[uü]ckgab|lieferte|ausgab)|[\w-]*ausgabe\s?[:\n]",
    "pt": r"(a )?(sa[ií]da|resposta) (do|da|de) (comando|ferramenta|fun[cç][aã]o|consulta|api|')[^:\n]{0,80}:|(a |"
    r"o )?(ferramenta|comando|fun[cç][aã]o|consulta|api|chamada)\b[^.:\n]{0,80}(retornou|devolveu|respondeu|"
    r"imprimiu|terminou com (o )?c[oó]digo)",
    "it": r"(l')?(output|risposta|uscita) (del|della|dello|di|dal) (comando|strumento|funzione|chiamata|query|api|"
    r"')[^:\n]{0,80}:|(lo |il |la |l')?(strumento|comando|funzione|chiamata|query|"
    r"api)\b[^.:\n]{0,80}(ha restituito|restituisce|ha risposto|ha stampato|(è )?terminato con)",
    "ru": r"(вывод|ответ|результат) (команды|инструмента|функции|вызова|запроса|api|')[^:\n]{0,80}:|(инструмент|"
    r"команда|функция|вызов|запрос|api)\b[^.:\n]{0,80}(вернул|ответил|вывел|заверш\w+ с кодом)",
    "zh": r"(以下(是|为)?)?[^,。:\n]{0,24}(工具|命令|指令|函数|接口|脚本|查询|搜索|调用|请求|程序|api|'[^'\n]{1,60}'|"
    r"\w+_\w+|ls|grep|git|curl)[^,。:\n]{0,24}(返回(了|的?(内容|结果|数据|值)|码|为|:| ?[{\[\d'])|输出(了|为|是|:|"
    r"如下|内容|结果)|回传|传回|打印了|退出码|响应(为|是|:|内容)|执行结果|结果(如下|:))|(命令|脚本|程序|指令|工具|"
    r"函数)?(已)?(执行|运行|调用)(完毕|完成|结束|成功)?,?(退出码|返回|输出)|(工具|命令|执行|运行|查询)?(返回值|"
    r"返回结果|返回内容|输出结果|输出内容|执行结果|输出|回传值|退出码)(如下|为|是)?\s?:|(执行|运行|"
    r"调用)[^,。\n]{1,40}[,，]?(后得到|返回|得到|输出|结果(是|为))|(运行|查询|搜索|检索|调用|测试)(的)?(结果|"
    r"返回)(如下|为|是)?\s?:|文件内容(如下|为)?\s?:|(结果|响应|返回)\s?:\s?[{\[<]|(返回|收到|得到|输出|"
    r"传回)(的)?(内容|结果|数据|信息)?\s?:|得到(了)?(如下|以下)|(命令|脚本|程序)已?(执行|运行)[,，]?(没有|无)输出|"
    r"(数据库|系统|服务器)返回(了)?(空|\d)|日志(内容)?(如下)?\s?:",
    "ja": r"[^。、:\n]{0,30}(ツール|コマンド|関数|クエリ|スクリプト|検索|api|呼び出し|リクエスト|'[^'\n]{1,60}'|"
    r"\w+_\w+)[^。:\n]{0,30}(出力(は|結果|内容|:|が|です|\s?\n)|の出力|返し(まし|てき)|返され|返って|返りまし|返却|"
    r"戻り値|戻りまし|の結果:|の結果(は(次|以下)|です)|終了コード|レスポンス|応答)|(実行結果|出力|標準出力|戻り値|"
    r"ツールの?結果|終了コード|レスポンス)(は(次|以下)[^。\n]{0,10})?\s?[:\n]|(検索|照会|クエリ)結果(は(次|"
    r"以下)[^。\n]{0,10})?\s?[:\n]|ファイルの内容(は|:)|(結果|応答|レスポンス)\s?:\s?[{\[<]|出力結果\s?[:\n]|"
    r"(返り値|戻り値)は|[^。\n]{0,30}実行(した|し)たところ|実行したところ|('[^'\n]{1,60}'|\w+_\w+) ?(は|"
    r"が) ?[^。\n]{1,60}を返しました|検索結果は ?\d|[^。\n]{0,20}から(は)? ?\d+ ?(行|件)[^。\n]{0,6}返",
    "ko": r"[^.:\n]{0,30}(도구|명령|함수|쿼리|스크립트|호출|api|'[^'\n]{1,60}'|\w+_\w+)[^.:\n]{0,30}(반환(했|값|하였|"
    r"한)|출력(은|했|값|:|결과)|종료 코드|응답)",
}
"""Begins a text that says what a tool returned."""
SOURCE = (
    r"\b(tools?|commands?|functions?|quer(y|ies)|calls?|calling|requests?|api|endpoint|search|lookup|script|"
    r"program|server|shell|terminal|process|"
    r"std(out|err)|sensor|console|herramienta|comando|funci[oó]n|consulta|llamada|b[uú]squeda|servidor|"
    r"petici[oó]n|outil|commande|fonction|requ[eê]te|"
    r"appel|recherche|serveur|werkzeug\w*|befehl\w*|aufruf\w*|funktion|abfrage|skript\w*|schnittstelle|suche|"
    r"kommando\w*|http)\b|"
    r"工具|命令|指令|函数|接口|脚本|查询|搜索|调用|请求|程序|服务器|ツール|コマンド|関数|クエリ|スクリプト|検索|"
    r"呼び出し|リクエスト|サーバ|"
    r"\w_\w|\w\.\w+\b|\b(get|post|put|patch|delete) /|\w\("
)
"""What a result comes from: a tool, or a name of code."""
RESULT = (
    r"\b(returned|returns|came back|responded|answered|replied|printed|gave|output|outputs|results?|response|"
    r"reply|exited|exit|reported|says|said|shows|"
    r"devolvi[oó]|devuelve|devuelto|respondi[oó]|respondido|contestado|contest[oó]|imprimi[oó]|mostr[oó]|salida|"
    r"respuesta|resultados?|c[oó]digo|renvoy[eé]e?|renvoie|"
    r"retourn[eé]e?|affich[eé]e?|r[eé]pondu|sortie|r[eé]ponse|r[eé]sultats?|lieferte?|ergab|meldete?|antwortete|"
    r"zur[uü]ckgegeben|ausgegeben|geliefert|"
    r"ausgabe|r[uü]ckgabe\w*|antwort|ergebnis\w*)\b|返回|输出|回传|传回|打印|响应|结果|退出码|出力|返し|返って|"
    r"返され|返却|戻り値|結果|応答|表示され|終了コード"
)
"""Says that something came back."""
CONCLUSION = (
    r"\b(so|because|since|therefore|thus|hence|which means|meaning|that means|this means|indicat\w+|suggest\w*|"
    r"confirm\w*|i (have|fixed|changed|added|updated)|i've|now|; ?(it|i|we)|as expected|por lo (que|tanto)|porque|"
    r"as[ií] que|donc|parce que|car|ce qui|also|weil|daher|deshalb|somit|das hei[sß]+t|quindi|perch[eé]|portanto|"
    r"значит|поэтому)\b|因此|所以|说明|表明|意味|因为|ので|ため|したがって|つまり|따라서|때문"
)
"""Concludes something from a result."""
HERE = r"here(?: is| are|'s) |hier(?: ist| sind| kommt)?(?: die| das| der)? |voici |aqu[ií] (?:est[aá]|tienes?) "
"""May begin a repeated result."""
OWN_WORDS = (
    r"(so|therefore|thus|hence|i|we|i'm|i'll|i've|let me|let's|this|that|it (looks|seems|appears)|which means|shall|"
    r"should|would you|do you|also|daher|deshalb|somit|das|ich|soll|por (lo )?tanto|as[ií] que|esto|voy|donc|cela|je|"
    r"veuillez)\b|(所以|因此|这说明|说明|我|看来|接下来|したがって|つまり|これは|次に)"
)
"""Begins a sentence that is the model's own, after a result."""
