"""Parses a user's reply to "do you confirm?" as yes, no or unclear; after an unclear reply the user is asked again.

Phrases are looked up in a table, by meaning and language, whatever language the user writes. Case, accents,
punctuation and full-width letters do not count. At each place the longest phrase wins ("no problem" before "no",
没问题 before 没), so the order of the table does not matter. A reply is read clause by clause:

- a condition or a request ("but", "first", 先, "please fix") is a no, whatever else the clause says: work remains;
- a clause with a negation is a no ("not ok", "das stimmt nicht", 承認しません);
- a doubt or a question is unclear, and so is a bare no beside a yes ("yes and no");
- a yes beside unknown words is a yes if it comes first, or nearly first, in a short reply.

When in doubt the reply is unclear: asking once more costs less than ending work that is not done.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from .chinese_script import simplified

Reply = Literal["yes", "no", "unclear"]

_TABLE: dict[str, dict[str, str]] = {
    "yes": {
        "en": "cool|sweet|okie dokie|okie|okey dokey|that will do|that ll do|will do|can do|super|brilliant|"
        "superb|splendid|cheers|you may|granted|permission granted|green light|thumbs up|it is so|"
        "i am happy|i m happy|happy with|yes sir|yessir|fair enough|spot on|nailed it|well done|good job|"
        "great job|nice work|nice job|good work|no problemo|np|ack|acknowledged|verified|validated|"
        "passed|passes|roger that|oh yes|very well|fire away|be my guest|make it so|that s all|resolved|"
        "solved|never mind the rest|no need to change anything|no further action|no changes required|"
        "no changes necessary|nothing wrong|nothing is wrong|nothing more|no remarks|no notes|"
        "no concerns at all|yes|y|yep|yup|yeah|yea|yah|ya|aye|sure|sure thing|ok|okay|okey|k|kk|o k|fine|"
        "alright|all right|go ahead|go for it|go on then|proceed|carry on|do it|do that|please do|"
        "ship it|merge it|deploy it|confirm|confirmed|confirms|i do|agree|agreed|approve|approved|accept|"
        "accepted|correct|right|true|exactly|precisely|indeed|absolutely|definitely|certainly|totally|"
        "of course|for sure|by all means|naturally|affirmative|roger|positive|good|great|perfect|"
        "excellent|awesome|nice|wonderful|fantastic|lgtm|works|works for me|that works|done|finished|"
        "complete|completed|satisfied|happy|all set|all good|good to go|you bet|gladly|with pleasure|"
        "no problem|no problems|not a problem|no issue|no issues|no objection|no objections|no concern|"
        "no concerns|no complaints|no worries|no doubt|no further questions|no questions|"
        "no more questions|no further comments|no comment|no changes|no changes needed|"
        "no further changes|nothing to add|nothing missing|nothing is missing|nothing else|why not|"
        "don't worry|do not worry|not bad|i am sure|i m sure|can't complain|do as you like|1",
        "zh": "解决了|已解决|已经解决|弄好了|做好了|好了|改好了|办妥了|确认了|认同|支持|点赞|赞|棒|厉害|牛|"
        "优秀|满意了|没啥意见|没啥|好喔|好耶|得|善|准|允许|授权|放行|验收通过|审核通过|"
        "同意的|没有其他问题|没有别的问题|没有其它问题|没别的了|不用再改|不用再改了|不需要再改|不必改了|"
        "没什么要改的|好的|好吧|好啊|好呀|好滴|好嘞|好哒|好|行|行的|行吧|行啊|可以|可以的|可以啊|可以了|"
        "都可以|可|是|是的|是啊|对|对的|对啊|没错|没有错|没问题|没有问题|没啥问题|没什么问题|没意见|"
        "没有意见|没异议|没有异议|无异议|没有任何问题|没毛病|同意|确认|已确认|确定|我确定|赞成|认可|批准|"
        "准了|通过|嗯|嗯嗯|恩|当然|当然可以|必须的|必须|完成了|已完成|做完了|完成|搞定|不错|挺好|很好|"
        "非常好|太好了|很棒|完美|满意|收到|了解|明白|知道了|就这样|就这样吧|去吧|来吧|请便|执行吧|开始吧|"
        "继续吧|妥|妥了|中|成|成交|要得|正确|准确|不用改|不用改了|不需要修改|不需要改|无需修改|无误|"
        "确认无误|一切正常|正常|为什么不|有道理|"
        "问题不大|没什么大问题|接受",
        "es": "sin duda alguna|excelente|estupendo|fenomenal|magnífico|buenísimo|okis|simón|sip|obvio|me gusta|"
        "me vale|conforme con|verificado|aprobada|nada más|no falta nada|no hay nada que cambiar|"
        "autorizado|autorizo|puedes|hecho está|trato hecho|buen trabajo|ya está|sí|si|claro|claro que sí|"
        "por supuesto|desde luego|vale|dale|venga|de acuerdo|conforme|confirmo|confirmado|confirmada|"
        "lo confirmo|adelante|perfecto|correcto|exacto|exactamente|eso es|bien|muy bien|está bien|"
        "todo bien|bueno|genial|listo|hecho|acepto|aceptado|apruebo|aprobado|afirmativo|okey|"
        "no hay problema|ningún problema|sin problema|sin problemas|no tengo objeciones|sin objeciones|"
        "nada que objetar|por qué no|cómo no|me parece bien|procede|proceda|hazlo|hágalo|continúa así|"
        "cierto|así es|sin duda|no hay duda|no pasa nada|estoy seguro|estoy de acuerdo|está hecho|"
        "terminado|completado|funciona",
        "de": "kannst du|ist recht|das reicht|reicht|toll|wunderbar|ausgezeichnet|hervorragend|top|läuft|"
        "läuft so|jawoll|yo|ebenso|abgemacht|zustimmung|zustimmend|gebongt|nur zu|so ist es|"
        "so machen wir es|so machen|weiter so|gute arbeit|gut gemacht|nichts zu beanstanden|nichts fehlt|"
        "es fehlt nichts|okay so|ok so|geht so in ordnung|gefällt mir|freigabe|verstanden|zufrieden|"
        "bin zufrieden|damit bin ich einverstanden|ja|jawohl|jo|jep|jup|joa|jap|klar|na klar|klaro|gerne|"
        "gern|natürlich|selbstverständlich|sicher|passt|passt so|passt schon|in ordnung|einverstanden|"
        "genehmigt|bestätigt|bestätige|bestaetige|bestaetigt|stimmt|stimme zu|zugestimmt|genau|richtig|"
        "korrekt|gut|sehr gut|prima|super|perfekt|bestens|mach das|mach es|leg los|na los|freigegeben|"
        "alles klar|geht klar|geht in ordnung|von mir aus|meinetwegen|kein problem|keine probleme|"
        "keine einwände|keine bedenken|nichts dagegen|nichts einzuwenden|spricht nichts dagegen|"
        "nicht schlecht|akzeptiert|angenommen|erledigt|fertig|unbedingt|auf jeden fall|aber sicher|"
        "aber ja|aber klar|aber gerne|warum nicht|okidoki|ohne zweifel|kein zweifel|tadellos|"
        "ich bin sicher|funktioniert",
        "fr": "ça convient|ça me convient|me convient|convient|excellent|formidable|magnifique|ça va|bravo|top|"
        "yes|carrément|grave|affirmatif|validation|autorisé|j autorise|rien à signaler|ras|bon travail|"
        "bien joué|beau travail|c est validé|c est d accord|c est correct|c est ok|il ne manque rien|"
        "plus rien à faire|juste|fonce|on y va|banco|je suis satisfait|satisfait|marché conclu|adopté|"
        "oui|ouais|ouep|mais oui|ben oui|bah oui|d accord|daccord|bien sûr|bien entendu|certainement|"
        "absolument|évidemment|confirme|confirmé|confirmée|je confirme|c est bon|c est fait|c est ça|"
        "c est parfait|bon|bien|parfait|vas y|allez y|allons y|très bien|entendu|exact|exactement|"
        "volontiers|avec plaisir|tout à fait|ça marche|ça roule|ça me va|validé|validée|je valide|valide|"
        "approuvé|j approuve|j accepte|accepté|correct|pas de problème|pas de souci|pas de soucis|"
        "aucun problème|aucun souci|aucune objection|pas d objection|sans problème|sans aucun doute|"
        "aucun doute|pourquoi pas|pas mal|rien à redire|rien à ajouter|super|génial|nickel|impeccable|"
        "terminé|fini|ok pour moi|je suis d accord|je suis sûr|je suis sûre|effectivement|en effet|"
        "fais le|faites le|fonctionne",
        "ja": "いいと思います|良いと思います|いいでしょう|良さそうです|よさそうです|いい感じ|最高|さんせい|"
        "合格|許可します|許可|いいとも|ぜひ|是非|オーライ|ok です|お任せします|以上です|終わっています|"
        "できています|できました|異論ありません|文句なし|バグはありません|エラーはありません|"
        "問題は ありません|問題はありません|問題は見つかりません|はい|はいはい|ええ|うん|うんうん|"
        "そうです|そうですね|そうだね|その通り|そのとおり|了解|りょうかい|承知|かしこまりました|"
        "分かりました|わかりました|分かった|わかった|オーケー|オッケー|オーケイ|いいです|いいですよ|"
        "いいですね|いいよ|いいね|良いです|良い|よい|よろしいです|よろしい|よし|大丈夫|問題ない|"
        "問題ありません|問題ないです|問題なし|問題ございません|異議なし|異議ありません|異存ありません|"
        "間違いない|間違いありません|間違いないです|確認しました|確認済み|確認した|確認します|"
        "確認できました|確認|承認|承認します|同意|同意します|賛成|お願いします|お願い致します|"
        "お願いいたします|進めてください|進めて下さい|続けてください|実行してください|どうぞ|もちろん|"
        "勿論|完了です|完了しました|完璧|正しい|確か|合っています|合ってる|構いません|かまいません|"
        "構わない|イエス|ばっちり|バッチリ|素晴らしい|満足です|結構です|終わりました|やってください",
        "signs": "👍|👌|✅|✔|☑|💯|🆗|🙆|🎉|🙌|👏|😀|😄|🙂|😊|+1",
    },
    "no": {
        "en": "almost|not quite|nearly|disappointed|disappointing|veto|hell no|hold off|back out|roll back|"
        "revert it|rollback|crashes|crashed|crash|unresolved|objection|objections|i object|object|"
        "forget it|no thanks|not happy|negatory|pointless|rubbish|useless|insufficient|lacks|lacking|no|"
        "n|nope|nah|nay|never|not|none|neither|negative|cannot|cant|dont|doesnt|isnt|arent|didnt|wont|"
        "wasnt|hasnt|havent|shouldnt|reject|rejected|refuse|refused|deny|denied|decline|declined|"
        "disagree|wrong|incorrect|false|stop|cancel|abort|unfinished|incomplete|missing|fail|fails|"
        "failed|failing|broken|broke|error|errors|bad|bug|bugs|unacceptable|nothing|no way|not yet|"
        "disapprove|unhappy|unsatisfied|terrible|nonsense",
        "zh": "还差|差一点|还差一点|不够|没做完|没弄好|没好|没改|不满意|不满|暂时不|先不|不合格|不达标|打回|"
        "退回|撤销|回滚|糟糕|太差|差劲|很差|报错|崩溃|不工作|不认可|否决|才怪|不|不是|不行|不可以|不可|"
        "不好|不对|不同意|不确认|没有|没|还没|还没有|尚未|未|别|不要|不用|不能|否|错|错了|错误|有问题|"
        "有错|有误|不通过|没通过|未通过|未完成|没完成|失败|拒绝|取消|停|停止|停下|反对|驳回|不准|不可能|"
        "不太好|不太行|休想|缺|缺少|才不|算了|免了",
        "es": "casi|rechazar|insuficiente|fallan|fallo|fallaron|roto|rota|no gracias|objeción|me niego|pésimo|"
        "fatal|deshaz|revierte|vetado|desapruebo|no|nunca|jamás|tampoco|todavía no|aún no|rechazo|"
        "rechazado|rechazada|incorrecto|mal|falta|faltan|cancela|cancelar|detente|para nada|nada|"
        "negativo|ni hablar|de ninguna manera|en absoluto|en desacuerdo|falso|falla|error|ni|ningún|"
        "ninguna|claro que no|por supuesto que no|qué va|incompleto|deniego|denegado",
        "de": "fast|beinahe|abgebrochen|ablehnung|widerspruch|ich widerspreche|unzureichend|ungenügend|"
        "scheitert|schlägt fehl|schlagen fehl|mangelhaft|zurück damit|rückgängig|lieber nicht|nix|"
        "nichtmal|veto|einspruch|zurückgewiesen|unzufrieden|katastrophe|nein|nee|ne|nö|nope|nicht|kein|"
        "keine|keinen|keiner|keinesfalls|keineswegs|niemals|nie|nichts|falsch|lehne ab|ablehnen|"
        "abgelehnt|fehlt|fehlen|stopp|halt|abbrechen|abbruch|auf keinen fall|ungültig|unvollständig|"
        "fehler|kaputt|verweigert|bloß nicht|schlecht|quatsch|ausgeschlossen|unfertig|fehlerhaft",
        "fr": "presque|refusée|échoue|échouent|échec|cassé|insuffisant|objection|négatif|je m oppose|"
        "inacceptable|raté|nul à chier|nope|bloqué|reviens en arrière|désapprouve|insatisfait|mécontent|"
        "non|nan|nn|pas|pas encore|jamais|ne|n|aucun|aucune|refuse|refusé|je refuse|rejeté|faux|"
        "incorrect|arrête|arrêtez|annule|annuler|annulez|manque|manquent|hors de question|surtout pas|"
        "point du tout|erreur|mauvais|rien|nul|incomplet|désaccord|que nenni",
        "ja": "不十分|不合格|壊れて|壊れています|動かない|動きません|終わっていません|終わってない|未完成|"
        "未対応|不満|ひどい|最悪|断ります|お断りします|取り消し|取り消して|差し戻し|もう少し|"
        "結構ではありません|ボツ|不承認|同意しかねます|いけません|ずれて|ちょっと違|イマイチ|いまいち|"
        "バグがあります|納得でき|いいえ|いえ|いや|いやです|いやだ|嫌です|嫌だ|だめ|ダメ|駄目|違います|"
        "違う|ちがう|ちがいます|まだ|反対|却下|認めません|認めない|やめて|やめます|中止|停止|キャンセル|"
        "できません|できない|出来ません|ません|ない|無理|良くない|よくない|不可|ノー|間違い|間違って|"
        "間違え|問題があります|問題がある|問題あり|エラー|失敗|足りない|足りません|不完全|未完了|拒否|"
        "拒否します|ではない|じゃない|しない|異議あり",
        "signs": "👎|❌|✖|✗|✘|🚫|🙅|⛔|🛑|😡|-1",
    },
    "request": {  # a condition or something to do: not done yet
        "en": "only after|only when|but|however|except|unless|until|only if|if|once|before|first|firstly|"
        "after you|as long as|provided|instead|rather|also|should|shouldn|must|need|needs|have to|has to|"
        "make sure|can you|could you|would you|will you|i want|i would like|i d like|let s|another|"
        "one more|try again|redo|again",
        "zh": "先|首先|但|但是|不过|可是|只是|然而|除非|如果|假如|要是|再|还要|还需要|还得|另外|重新|重做|重来|"
        "改|改成|改为|改一下|修改|修复|修正|更新一下|更改|加上|加一|添加|增加|补充|删除|删掉|去掉|运行|"
        "跑一下|跑测试|检查|测试一下|帮我|请把|需要|应该|等测试|然后|顺便|还有|修改下|换成|把|得先",
        "es": "pero|sin embargo|salvo|excepto|a menos que|hasta que|solo si|sólo si|siempre que|cuando|antes|"
        "primero|después de|también|además|debes|debe|deberías|hay que|tienes que|necesito|falta que|"
        "quiero|otra vez|de nuevo|asegúrate",
        "de": "aber|jedoch|allerdings|außer|sofern|falls|wenn|sobald|bevor|zuerst|erst|vorher|zunächst|"
        "nur noch|noch|auch|außerdem|stattdessen|musst|muss|müsste|sollte|solltest|sollst|bitte noch|"
        "ich will|ich möchte|nochmal|noch einmal|erneut",
        "fr": "mais|cependant|toutefois|sauf|à moins que|à condition|seulement si|quand|dès que|avant|d abord|"
        "premièrement|aussi|également|il faut|faut|dois|devrais|devrait|tu peux|peux tu|pouvez vous|"
        "pourrais tu|je veux|je voudrais|plutôt|encore une fois|à nouveau|assure toi",
        "ja": "でも|しかし|ただし|ただ|けど|けれど|ですが|先に|まず|最初に|前に|もし|場合|たら|なら|また|"
        "もう一度|やり直し|ください|下さい|てほしい|て欲しい|てから|必要|べき|直して|変更して|追加して|"
        "修正して|それから|他に",
    },
    "doubt": {
        "en": "need to check|have to check|i ll check|will check|need to look|have to look|let me think|"
        "i ll think|need to think|have to think|thinking|need time|need more time|give me|"
        "not entirely sure|not completely sure|not 100 sure|no clue|beats me|who knows|in a minute|"
        "be right back|brb|hang on|hold up|some day|hard to tell|eh|meh|well well|i have a question|"
        "question|remind me|ask me later|could be|might be|might|you decide|your call|up to you|"
        "not decided|undecided|not now|maybe|perhaps|possibly|probably|not sure|unsure|uncertain|"
        "i don't know|i do not know|dont know|dunno|idk|no idea|not certain|hmm|hm|hmmm|um|uh|er|wait|"
        "hold on|let me|one moment|a moment|moment|one second|just a sec|later|depends|it depends|either|"
        "whatever|kind of|sort of|good question|good point|i guess so|i guess|i suppose|can't say|"
        "hard to say|can't tell|don't care|do not care|i don't understand|i do not understand|yes or no|"
        "yes and no|ok or not|think about it",
        "zh": "稍后|晚点|晚些|回头|回头再说|再看|你决定|你定|你看着办|看着办|都行吧|半信半疑|犹豫|没想好|"
        "还没想好|没决定|还没决定|没看|还没看|没检查|还没检查|我看一下|我看下|我检查一下|我先看看|"
        "先看一下|等我|等我看|等我检查|再等一下|说不清|谁知道|有个问题|我有个问题|差不多吧|凑合|马马虎虎|"
        "将就|不确定|也许|可能|或许|大概|说不定|不知道|不清楚|不好说|难说|等一下|等下|等等|稍等|等会|"
        "待会|让我|我想想|想想|考虑|考虑一下|随便|无所谓|看情况|看看|不一定|不明白|不懂|不太确定|好像|"
        "应该吧|再说|再看看|是不是|是吗|好不好|行不行|可不可以|对不对|有没有|对不起|不太清楚|再想想|"
        "再等等|先等等|先看看|还好|一般|不太明白|不晓得",
        "es": "ahora no|ya te digo|déjame ver|déjame pensar|lo pienso|lo pensaré|tengo que pensar|"
        "tengo una pregunta|no sabría|no tengo ni idea|quién sabe|no lo tengo claro|dudo|tengo dudas|"
        "podría ser|como quieras|tú decides|más o menos|regular|aún no lo sé|todavía no lo sé|"
        "todavía no sé|no me acuerdo|quizás|quizá|tal vez|a lo mejor|puede ser|puede que|posiblemente|"
        "probablemente|no sé|no lo sé|ni idea|no estoy seguro|no estoy segura|espera|un momento|"
        "un segundo|déjame|depende|da igual|me da igual|sí o no|sí y no|no entiendo|más tarde|luego|"
        "ya veremos|supongo|creo que sí|hmm|mmm",
        "de": "jetzt nicht|muss überlegen|ich überlege|überlege noch|lass mich überlegen|gleich|ich schaue|"
        "ich schau|ich prüfe|ich muss erst|frage|ich habe eine frage|bin unschlüssig|unschlüssig|"
        "noch nicht sicher|noch unsicher|weiß noch nicht|weiss noch nicht|könnte sein|kann sein|wer weiß|"
        "mittelmäßig|geht so|entscheide du|wie du willst|wie du meinst|ich zweifle|zweifel|vielleicht|"
        "eventuell|möglicherweise|wahrscheinlich|weiß nicht|weiß ich nicht|weiss ich nicht|"
        "ich weiß es nicht|keine ahnung|nicht sicher|unsicher|moment|einen moment|warte|warte mal|"
        "lass mich|später|jein|kommt darauf an|kommt drauf an|egal|mir egal|hm|ähm|naja|na ja|"
        "ja oder nein|ja und nein|mal sehen|verstehe nicht|verstehe ich nicht|ich verstehe das nicht|"
        "denke schon|schwer zu sagen",
        "fr": "pas maintenant|je réfléchis|je vais réfléchir|laisse moi voir|laisse moi réfléchir|je regarde|"
        "je vérifie|j ai une question|question|j hésite|je ne sais pas encore|sais pas encore|"
        "comme tu veux|à toi de voir|qui sait|c est possible|ça se peut|pourrait|comme ci comme ça|"
        "mouais|moyen|je doute|pas convaincu|tout à l heure|plus ou moins|une minute|minute|peut être|"
        "possiblement|probablement|sans doute|je ne sais pas|je sais pas|sais pas|chais pas|j sais pas|"
        "pas sûr|pas sûre|pas certain|pas certaine|je ne suis pas sûr|aucune idée|attends|attendez|"
        "un instant|un moment|une seconde|laisse moi|ça dépend|plus tard|oui et non|oui ou non|bof|euh|"
        "je ne comprends pas|comprends pas|on verra|peu importe|je suppose|difficile à dire",
        "ja": "まだ分かりません|まだわかりません|まだ決めていません|まだ決めてない|決めていません|"
        "決められません|迷っています|迷う|検討します|検討中|少し待って|しばらく|後ほど|また後で|今は|"
        "さあ|さぁ|まあまあ|質問があります|質問です|お任せ|考え中|確認中|見てみます|見てから|どうしよう|"
        "まだ確認していません|まだ見ていません|どちらかと|たぶん|多分|おそらく|恐らく|かも|"
        "かもしれません|かもしれない|分かりません|わかりません|分からない|わからない|知りません|知らない|"
        "待って|待ってください|お待ちください|ちょっと待って|ちょっと待ってください|少々お待ちください|"
        "うーん|ううん|ええと|えっと|どうかな|どうだろう|どちらでも|どちらとも|どっちでも|微妙|後で|"
        "あとで|考えさせてください|考えさせて|考えます|はっきりしません|自信がありません|自信がない|かな|"
        "それとも|確認させてください|確認させて",
        "signs": "🤔|🤷|😕|😐|🙃|❓|❔",
    },
    "asks": {  # at the beginning of a clause in languages that write spaces, else anywhere
        "en": "explain|tell me|show me|show|can you explain|could you explain|can you tell|can you show|"
        "could you tell|could you show|do we|does that|can i|can we|could we|should i|may i|am i|are we|"
        "are they|will it|would it|isn't it|really|and what|what|which|who|whom|whose|when|where|why|how|"
        "is it|is that|is this|are you|did you|does it|do you|have you|has it|was it|is there|are there",
        "zh": "解释|说明|为啥|咋|啥|干嘛|能不能|会不会|要不要|真的假的|确定吗|真的|什么|为什么|怎么|怎样|哪|"
        "哪里|哪个|谁|多少|几",
        "es": "explica|explícame|muestra|muéstrame|dime|puedes explicar|es que|cuántos|cuántas|está todo|qué|"
        "cuál|quién|cuándo|dónde|cómo|cuánto",
        "de": "erkläre|erklär|zeig|zeige|sag mir|kannst du erklären|kannst du mir|bist du|sind die|haben wir|"
        "läuft es|und was|wozu|woran|worum|inwiefern|was|welche|welcher|welches|wer|wann|wo|wie|warum|"
        "wieso|weshalb|ist es|ist das|hast du",
        "fr": "explique|montre|dis moi|tu peux expliquer|es tu|est il|est elle|as|avez vous|lequel|laquelle|"
        "c est quoi|hein|quoi|quel|quelle|qui|quand|où|pourquoi|comment|combien|est ce|qu|as tu",
        "ja": "説明して|教えて|見せて|どの|どんな|どちら|いくら|いくつ|なんで|何で|どういう|何|なに|なぜ|"
        "どうして|いつ|どこ|どれ|だれ|誰|どう|本当に|ほんとに",
    },
    "filler": {
        "en": "please|thanks|thank you|thx|ty|thank|so much|very much|a lot|i|it|it s|that|that s|this|is|s|"
        "are|looks|look|seems|sounds|the|a|to me|for me|by me|with me|with it|with that|task|everything|"
        "everything s|all|very|now|well|oh|so|and|think|i think|just|really|much|as|here|am|m|we|you|re|"
        "me|be|will|can|exactly what i wanted",
        "zh": "谢谢|多谢|感谢|辛苦了|辛苦|我|你|您|请|的|了|吧|啊|呀|哦|哈|嘛|这个|这|那|那就|任务|已经|已|都|"
        "非常|太|很|是的话|觉得|认为|一切|麻烦|麻烦你|谢了|就|也|亲|你好|再见|特别|给",
        "es": "por favor|gracias|muchas|que|lo|está|es|eso|todo|muy|y|ya|yo|me|parece|la|el|tarea|estoy|porfa|"
        "pues|esto",
        "de": "bitte|danke|vielen dank|dank|ich|es|das|ist|so|alles|sehr|und|jetzt|dem|zu|sieht|aus|mir|hier|"
        "die|der|aufgabe|dies|ganz|schön|schon|bin|damit",
        "fr": "s il te plaît|s il vous plaît|stp|svp|merci|beaucoup|je|c|est|c est|ce|le|la|tout|très|et|ça|me|"
        "va|pour moi|suis|tâche|l|que|j|a|été|bien joué",
        "ja": "です|ます|ました|ね|よ|ありがとう|ありがとうございます|ございます|どうも|それで|これで|それ|"
        "これ|は|が|を|に|と|も|の|私|します|ので|から|だ|さん|では|じゃあ|全て|すべて|タスク",
    },
    "verb": {  # a request at the beginning of a clause
        "en": "change|fix|add|remove|update|run|test|check|rename|use|set|move|revert|undo|rewrite|delete|"
        "replace|improve|correct the|write|create|review|look at|give|put|increase|reduce|clean|"
        "double check|verify|wait for|get|make|send|ask|list|edit|adjust|include|restart|repeat|"
        "complete the|do the",
        "es": "cambia|cambie|añade|agrega|borra|elimina|prueba|ejecuta|corrige|actualiza|revisa|comprueba|"
        "verifica|arregla|pon|usa|quita|renombra",
        "de": "ändere|ändern|füge|lösche|prüfe|teste|starte|korrigiere|behebe|aktualisiere|nimm|setze|schreibe|"
        "benenne|überprüfe|entferne|repariere|verbessere|führe",
        "fr": "change|changez|ajoute|ajoutez|supprime|corrige|corrigez|teste|lance|lancez|vérifie|vérifiez|"
        "mets|renomme|modifie|modifiez|répare|enlève|exécute|relance|utilise",
    },
}  # fmt: skip
"""Phrases by meaning and language. Words in Latin letters match as whole words."""

_ALONE = frozenset("y k n 1 是 对 行 可 成 中 妥 恩".split())
"""Phrases that count only as a whole clause: within a sentence they are parts of other words, or mean something else
(Spanish "y": and)."""
_ARTICLES = frozenset("the a this that la le el un une der die das".split())
"""A verb after one of these is a noun."""
ASKING_ENDINGS = ("か", "吗", "呢", "까요", "나요", "습니까")
"""Endings of questions that need no question mark."""
_UNKNOWN_BESIDE_A_YES = 12
"""Most unknown words in a reply that still is a yes."""
_UNKNOWN_BEFORE_A_YES = 4
"""Most unknown words before the yes, in its clause."""


def parse_reply(text: str) -> Reply:
    """Parse a reply as yes, no or unclear."""
    clauses = [clause for part in _CLAUSE.split(_folded(text)) if (clause := _Clause(part)).said or clause.unknown]
    said = {clause.says for clause in clauses}
    asks = "?" in _folded(text) or "asks" in said
    if "request" in said:
        return "unclear" if asks and "yes" not in said and "no" not in said else "no"
    if "doubt" in said:  # "yes, but not now" is a no
        return "no" if "no" in said or ("yes" in said and any("request" in c.said for c in clauses)) else "unclear"
    if "no" in said:
        contradicts = "yes" in said and all(clause.says == "yes" or clause.bare for clause in clauses)
        return "unclear" if contradicts else "no"
    idiom = len(clauses) == 1 and clauses[0].idiom
    if "yes" not in said or (asks and not idiom):
        return "unclear"
    return "yes" if sum(clause.unknown for clause in clauses) <= _UNKNOWN_BESIDE_A_YES else "unclear"


class _Clause:
    """The part of a reply up to the next comma or full stop."""

    def __init__(self, text: str) -> None:
        text = text.strip()
        self.unknown = 0
        self.said: list[str] = []
        """Meanings of its phrases, in order."""
        self.bare = text in _BARE
        """Whether the clause is nothing but a word for no."""
        self.idiom = text in _WHY_NOT
        before = previous = ""
        for match in _words().finditer(text):
            word = match[0]
            what = _meanings().get(word)
            if what is None or (word in _ALONE and word != text and what == "yes"):
                self.unknown += 1 if word.isascii() else len(word) % 2 + len(word) // 2
                previous, before = word, before or "unknown"
                continue
            if what == "verb":
                what = "request" if before in ("", "yes", "filler") and previous not in _ARTICLES else "filler"
            if what == "asks" and word.isascii() and self.said:
                what = "filler"
            if what == "yes" and "yes" not in self.said and self.unknown > _UNKNOWN_BEFORE_A_YES:
                what = "filler"
            self.said.append(what)
            previous = word
            before = before if before == "unknown" else what
        if text.endswith(ASKING_ENDINGS):
            self.said.append("asks")

    @property
    def says(self) -> str:
        """Its meaning: a negation outweighs a yes, and a condition or a doubt outweighs both."""
        for what in ("doubt", "request", "no", "asks", "yes"):
            if what in self.said:
                return what
        return ""


def _folded(text: str) -> str:
    """Normalise a text: no case, accents, full-width forms, skin tones or drawn-out letters; apostrophes are spaces.

    Chinese characters become simplified ones.
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("o.k.", "ok")
    apart = unicodedata.normalize("NFD", text)
    text = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f\u200d\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]", "", apart))
    text = re.sub(r"n['’]t\b", " not", simplified(text))
    return re.sub(r"([^\W\d])\1{2,}", r"\1", re.sub(r"['’`´\"“”«»„*_~()\[\]\s-]+", " ", text))


_CLAUSE = re.compile(r"[,.;:!?…、。，；：！？¡¿\n—–]+")
_BARE = frozenset({"no", "non", "nein", "nope", "不", "いいえ", "いえ", "いや", "nee", "no no", "nah"})
_WHY_NOT = frozenset(map(_folded, ("why not", "pourquoi pas", "por qué no", "cómo no", "warum nicht", "为什么不")))


@cache  # on first use and not on import: it takes 0.1 s, and few runs ask for a confirmation
def _meanings() -> dict[str, str]:
    """Meaning of each phrase, by the phrase as `_folded` normalises it."""
    return {
        _folded(phrase).strip(): what
        for what, languages in reversed(_TABLE.items())
        for phrases in languages.values()
        for phrase in phrases.split("|")
    }


@cache
def _words() -> re.Pattern[str]:
    """A pattern for all phrases, longest first, and for any other word.

    Phrases stand by their first character, so that few are tried at each place.
    """
    by_first: dict[str, list[str]] = {}
    for phrase in sorted(_meanings(), key=len, reverse=True):
        rest = re.escape(phrase[1:])
        if phrase.isascii() and phrase[0].isalnum():
            rest += rf"(?<![a-z0-9]{re.escape(phrase)})(?![a-z0-9])"
        by_first.setdefault(phrase[0], []).append(rest)
    phrases = [f"{re.escape(first)}(?:{'|'.join(rests)})" for first, rests in by_first.items()]
    return re.compile("|".join(phrases) + r"|[a-z0-9]+|[^\W]")
