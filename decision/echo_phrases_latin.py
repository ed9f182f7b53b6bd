"""Words that add nothing to a text which repeats its instruction, in six languages with Latin letters.

English, Spanish, French, German, Portuguese and Italian. `echoes.py` leaves them out before it asks whether the text
says anything else: "Sure, I will follow the rules."
"""

from __future__ import annotations

from .empty_clauses import Language, Pair

ENGLISH = Language(
    letters="a-zà-ɏ",
    assent="yes|yeah|yep|yup|sure|of course|certainly|absolutely|definitely|right|correct|true|exactly|indeed|"
    "naturally|sure thing|no problem|not a problem|by all means|agreed|no problem at all|with pleasure|gladly|"
    "my pleasure|possible|affirmative",
    polite="ok|okay|okey|alright|all right|fine|great|good|perfect|excellent|wonderful|awesome|nice|cool|super|"
    "brilliant|got it|got you|gotcha|understood|noted|acknowledged|duly|clear|all clear|crystal clear|roger|"
    "roger that|copy that|message received|loud and clear|will do|makes sense|makes perfect sense|fair enough|"
    "fair point|point taken|thanks|thank you|many thanks|very much|so much|a lot|please|hi|hello|hey|there|user|sir|"
    "well|very well|so|then|now|here|oh|ah|aha|hm|hmm|and|but|or|also|too|again|completely|fully|perfectly|totally|"
    "directly|immediately|clearly|right away|right now|at once|straight away|shortly|as requested|as instructed|"
    "as you wish|from now on|going forward|from here on|from here on out|it|this|that|you|everything|otherwise|"
    "no worries|one moment|just a moment|moving forward|as an assistant|sounds good|that sounds good|all good|my bad|"
    "my mistake|sorry|apologies|my apologies|today|to the point|briefly|concisely|succinctly|great question|"
    "good question|carefully|accordingly|simply|just|only|first|next|myself|i",
    pairs=(
        Pair(  # thanks and apologies
            "(?:many |again )?thank(?:s| you)(?: again| so much| very much)? for|(?:my |sincere )?apologies for|"
            "i apologi[sz]e for|sorry (?:for|about)|i appreciate|good (?:point|question|idea)|you are (?:right|"
            "welcome)",
        ),
        Pair(  # what the speaker will do
            r"(?:i|we) (?:(?:now|also|then|only|just|always|still|certainly|gladly|of course) )?(?:will|shall|(?:am|"
            r"are) (?:ready|happy|glad|here|going to|about to|all|listening|prepared|waiting|looking forward|at your|"
            r"set|eager|good to go|committed|able to|always|more than|fully|now|to)\b|would be (?:happy|glad|"
            r"delighted)|can|must|should|promise|plan|intend|aim|await|look forward|do my best)(?! (?:not|never|un\w+|"
            r"afraid|sorry|need|require|have)\b)|will(?! not)|let me(?! know)|let us|(?<=and )(?:(?:then|only|just|"
            r"always|to) )?(?:answer|respond|reply|use|call|follow|help|assist|do|keep|am|look|get|provide|give|"
            r"explain|act|work|proceed|begin|start|wait|ask|stick|make|try|honestly|accurately|clearly|precisely|"
            r"truthfully|politely|quickly|thoroughly)|to (?:the best|answer|help|your)|as (?:best|you|soon|clearly|"
            r"concisely|directly|briefly|accurately|instructed|requested|needed|per|simply|short|well)|in (?:plain|"
            r"simple|clear|english|french|german|spanish|text|json|markdown|short|full|line|accordance|natural|(?:a|"
            r"the|this|that|one|any|your|my) (?:\w+ )?(?:way|manner|tone|style|format|language|sentence|words?|"
            r"fashion|paragraph|conversation|chat))|using (?:only|the|my|plain|your)|based on|according to|within|"
            r"with (?:pleasure|care|precision|clarity|the (?:tools|information|knowledge)|my|what)|by (?:using|"
            r"calling|following|answering)|for (?:each|every|all|any|simple|your|the) (?:\w+ )?(?:questions?|"
            r"requests?|tasks?|quer(?:y|ies)|messages?)$|(?:only )?(?:if|when|whenever|unless|once|"
            r"until)(?= .{0,40}\b(?:tools?|questions?|you|i|function|instructions?|possible)\b)|before|after|always|"
            r"strictly|here (?:is|comes|goes)|(?:short|brief|direct|simple|plain|concise)",
            r"answer|respon[ds]|repl(?:y|ies)\b|quer(?:y|ies)\b|questions?\b|tools?\b|function calls?|instructions?\b|"
            r"guidelines?\b|requirements?\b|directions\b|constraints?\b|(?:your|this|that|each|every|all) requests?|"
            r"accordingly|help|assist|support you|at your service|of service|serve you|best\b|ability|proceed|continu|"
            r"(?:start|begin)(?:ing)?(?: (?:now|right|with your|by|answering|working|immediately|the task|as)|$)|"
            r"get (?:to|going|on|right|started|back)|carry on|go ahead|go on|move on|keep (?:it|this|that|things|my|"
            r"them|in|to)|brief|concise|succinct|to the point|clearly|be clear|direct(?:ly)?\b|plain|accura|careful|"
            r"precise|thorough|explain|explanation|knowledge|text only|language|english|ready|listening|all ears|"
            r"do (?:so|that|this|it|as|what|everything)\b|follow (?:(?:the|your|these|those|this|that|all|any|every|"
            r"given|above) ){0,3}(?:\w+ )?(?:rules?|format|steps?|orders?|schema|template|conventions?)\b|"
            r"follow (?:them|it|that|suit|along|through|up)|comply|adhere|abide|stick to|obey|respect|refrain|"
            r"remember|bear|wait|stand by|let you|tell you|inform|notify|ask\b|(?:call|use|invoke|employ) (?:it|them|"
            r"one|these|those|only|when|if|as)\b|needed|necessary|required|appropriate|look (?:at|into|over|forward)|"
            r"take (?:care|that|this|it|your|a look)|mind\b|attention|happy|glad|here (?:to|for|if|when)|(?:the|this|"
            r"that|requested|specified|required|correct|proper|right|given|same|expected|json|desired) format\b|"
            r"you (?:asked|want|need|like|prefer|said)|think|check|see\b|honest|truthful|polite|quickly|(?:where|when|"
            r"whenever|if|as) possible\b(?<!soon as possible)|sparing|try again|try harder|dive in|jump in|dig in",
        ),
        Pair(  # what the speaker will not do
            "(?:(?:that )?(?:i|we) )?(?:(?:will|shall|would|do|need|must|should|may|can) )?(?:not|never|avoid|"
            "refrain)|(?:that )?(?:i|we) cannot use|no|without|avoiding|instead of|rather than|there is no need|"
            "nothing",
            r"tools?\b|function calls?|calls?\b|explanations?|preamble|commentary|fluff|filler|small talk|chatter|"
            r"elaborat|apologies|(?:extra|further|additional|unnecessary|needless) (?:text|words|details?|information|"
            r"talk|output)|markdown|bullet|emojis?|jargon|use (?:it|them|any)\b|deviat|beyond|beating around|more than",
        ),
        Pair(  # what the user may do next
            r"(?:you|we) (?:can|may|could) (?:(?:now|also|always|just) )?(?:ask|go ahead|go on|proceed|continue|begin|"
            r"start|tell|send|share|give)(?= (?:me|now|asking|whenever|when|anytime|with your|your)\b|$)|(?:go ahead|"
            r"go on|carry on|fire away|shoot$|hit me|feel free(?= to (?:ask|start|begin|continue|share|send|tell|give|"
            r"go|proceed|reach|let)\b|$)|do not hesitate|over to you|your turn|whenever you|how (?:can|may|could|"
            r"should) i (?:help|assist|be of|serve)|what (?:can|may|could|should) (?:i|we) (?:do|help|assist)|(?:what|"
            r"how) (?:would|do|should) (?:you (?:like|want|need|wish)|we (?:start|proceed|begin))|"
            r"what(?: is)? (?:your|the) (?:question|task|request|first|next)|what is (?:it|on your)|what can i|"
            r"what else|anything (?:else|you)|is there anything|ask (?:me|away|your (?:next )?questions?|anything|"
            r"whatever)|tell me (?:what(?= (?:you|i)\b)|your|how i)|let me know (?:what you|how i|if|when|whenever|"
            r"your (?:question|request|task|next|thought|need|preference)\w*)|just (?:ask|let me|tell me|say)|"
            r"(?:i am )?ready (?:when|whenever|to (?:help|assist|answer|start|begin|go|proceed)|for)|(?:waiting|"
            r"looking forward|awaiting|standing by)|at your|(?:happy|glad) to|here to|always here|shall we|"
            r"which question|where (?:shall|should|would) (?:we|you|i)|(?:continue|proceed)(?= (?:with your|when|"
            r"whenever)\b|$)|(?:send|share|give|provide|ask|state|type|enter)(?: me| over)?(?: the| your|"
            r" any)? (?:next|first|question|request|task|instruction|quer|rest|prompt))",
        ),
        Pair(  # what the user asked for
            "(?:what|all|everything) (?:is|you are|the user is|was) (?:being )?(?:needed|required|expected|asked|"
            "asking|wanted)|that (?:the|my|your|all) (?:answers?|response|reply|replies) (?:should|must|need|has|"
            "have)|(?:what )?you are (?:asking|saying|looking)|(?:that )?the user is (?:asking|looking)|(?:exactly |"
            "perfectly |fully |clearly )?(?:what|that|how|everything|all|the|your|this|these|those|each|every|both|my|"
            "our|its|any|you|of)",
            r"(?:request|task|question|quer(?:y|ie)|instruction|rule|requirement|guideline|constraint|prompt|message|"
            r"situation|context|point|assignment|expectation|format|goal|objective|concern|preference|needs|brief|"
            r"role|user|problem|issue|confusion|idea|clarification|limitation)s?(?= (?:you|now|to|and|as|here|clearly|"
            r"completely|perfectly|fully|well|provided|given|above|correctly|very|at|i|for me|directly|in|using|"
            r"without|honestly|step by step|right away)\b|$)|(?<=is )(?:asked|needed|required|expected|wanted)|"
            r"being (?:asked|requested)|are asking|is asking|(?<=what )you need|(?<=everything )you need|"
            r"you (?:want(?! to (?!know|see|understand|get|learn))|need (?:me|help)|mean|meant|say|said|are (?:asking|"
            r"saying|looking)|asked(?= (?:me|for|about)\b|$)|would like|expect|require|prefer|wish|have (?:asked|said|"
            r"given))|i (?:should|must|need to|have to|am to|am (?:supposed|expected)|will|can|may)\b|(?:user|"
            r"they) (?:wants?|needs?|asks?|would like|prefers?)",
        ),
    ),
    substance=r"is|are|was|were|has|had|does|did|cannot|not|never|because|since|due|yes|no|nope|true|false|however|"
    r"unfortunately|means|contains|equals|exists?|fail(?:s|ed)|missing|works|(?:it|this|he|she) \w+(?:s|ed)",
)
SPANISH = Language(
    letters="a-zà-ɏ",
    assent="sí|si|claro|claro que sí|por supuesto|desde luego|cierto|correcto|exacto|efectivamente|afirmativo|"
    "sin duda|naturalmente|seguro|cómo no",
    polite="ok|okey|okay|vale|bien|muy bien|bueno|perfecto|genial|excelente|estupendo|fantástico|de acuerdo|entendido|"
    "comprendido|comprendo|entiendo|recibido|mensaje recibido|anotado|tomo nota|tomado nota|mejor la próxima vez|"
    "la próxima vez|lo haré mejor|listo|lista|gracias|muchas gracias|hola|buenas|buenos días|ah|oh|ya|y|e|pero|ahora|"
    "ahora sí|por favor|disculpa|disculpe|disculpas|perdón|perdona|perdone|lo siento|mis disculpas|todo claro|"
    "queda claro|está claro|me queda claro|perfectamente|completamente|totalmente|ya veo|de nada|encantado|encantada|"
    "usted|te|le|lo|así|así lo haré|lo haré|directamente|a partir de ahora|de ahora en adelante|desde ahora|desde ya|"
    "enseguida|inmediatamente|ahora mismo|con gusto|con mucho gusto|sin problema|sin problemas|ningún problema|"
    "no hay problema|a la orden|dale|venga|también|además|entonces|pues|si no|vamos allá|allá vamos|manos a la obra|"
    "vamos a ello|cuenta conmigo|cuente conmigo|de lo contrario|en caso contrario|te escucho|le escucho|os escucho|"
    "buenos|señor|señora|conciso|concisa|breve|claro y conciso|brevemente|claramente|mejor|perfecto entonces",
    pairs=(
        Pair(  # thanks and apologies
            r"(?:muchas |mil )?gracias (?:por|a)|te agradezco|le agradezco|(?:lo siento|perdón|disculp\w+|perdon\w+|"
            r"lamento)(?: por| la| las| el| mucho)",
        ),
        Pair(  # what the speaker will do
            r"(?:(?:yo|ya|también|solo|sólo|siempre|te|le|les|os|lo|la|los|las|me|se|así que|entonces|"
            r"luego) ){0,3}(?:voy a|vamos a|procedo|paso a|intento|procuro|puedo|estoy|estaré|quedo|(?:la|lo|las|"
            r"los) (?:respondo|contesto|hago|sigo)|me encargo|me pongo|vamos|(?!podré|necesitaré|deberé)\w{2,}ré|"
            r"\w+emos)|sin|con (?:claridad|precisión|brevedad|gusto|cuidado|la mayor|lo que|rapidez|base)|"
            r"en (?:español|inglés|texto|formato|json|pocas|cuanto|caso|función|base|el (?:formato|idioma)|"
            r"[ts]u idioma|la medida|un[ao]? )|de (?:forma|manera|modo|acuerdo|ahora)|según|conforme|siguiendo|usando|"
            r"utilizando|sólo|solo|únicamente|cuando|si|salvo|excepto|a menos|siempre|a partir|desde (?:ahora|ya)|"
            r"lo (?:más|mejor)|tal (?:y )?como|a lo que|para|mediante|como|a (?:tu|su|la|las|tus|sus|cada|todas|"
            r"partir)|(?<=y )(?:usar|usando|seguir|siguiendo|clar[oa]|concis[oa]|precis[oa]|honest[oa]|direct[oa]|"
            r"\w+mente$)",
            r"respond|respuesta|contest|pregunt|consult|herramient|instruc|indica|reglas|normas|format|esquema|petici|"
            r"solicitud|pedid|pid[aei]|tarea|ayud|asist|servi[rc]|posible|lo mejor|a ello|al pie|a ell[oa]s|honest|"
            r"mente$|(?:las?|los?) seguir|cumpl|respet|continu|empe[zc]|empiez|comen[zc]|comienz|proced|adelante|"
            r"breve|concis|clar[oa]|direct|respondo|contesto|sencill|texto|español|inglés|idioma|explica|en cuenta|"
            r"list[oa]s?\b|preparad|dispuest|disposición|aquí|(?:las?|los?) (?:usar|utilizar|llamar|invocar|emplear|"
            r"ejecutar)|necesari|siguiente paso|saber|avis|inform|decir|diré|permiso|encarg|pongo|trabajo|esper|atent|"
            r"precis|detall|esfor|extend|intentar",
        ),
        Pair(  # what the speaker will not do
            "(?:(?:así que|y|ya) )?(?:no|nunca|ni|sin|evitar(?:é|ando)?)",
            r"herramient|explicaci|rodeos|relleno|adornos|preámbulo|introducci|comentario|adicional|funciones|"
            r"markdown|list(?:as|ados)|viñetas|tecnicismos|necesari|hac(?:e|er)\w* falta",
        ),
        Pair(  # what the user may do next
            r"(?:(?:ya|me|ahora) )?(?:puede[sn]?|podéis) (?:(?:ya|ahora) )?(?:(?:continuar|seguir|proceder|empezar|"
            r"comenzar)(?= (?:cuando|con tu|con su|ahora|ya)\b|$)|(?:envi|mand|escrib)arme|(?:pregunt|envi|mand|dec|"
            r"hac|cont|plante)\w*(?= (?:tu|su|la siguiente|el resto|la pregunta|lo|cuando|ahora|ya|lo que|"
            r"cualquier)\b|$))|dime (?:qué|en qué|cómo|tu|lo)|díga(?:me|nos) (?:qué|en qué|cómo|su|lo)|cuénta?me|"
            r"cuente?me|cuéntame|pregúnt[ae]me|pregunt[ae](?= (?:lo que|cuanto|sin|ya|cualquier|con)\b|$)|"
            r"haz(?:me)? (?:tu|la)|hága(?:me|nos)? (?:su|la)|adelante|(?:por|con|en) (?:dónde|cuál|qué) (?:quier|"
            r"empez|comenz|te|le)\w*|hay algo|contin[uú](?:a|e|emos)(?= (?:con su|con tu|cuando|por favor)\b|$)|"
            r"sig(?:ue|a|amos)(?= (?:con su|con tu|cuando)\b|$)|comencemos|empecemos|empezamos|comenzamos|continuamos|"
            r"qué (?:quier|dese|necesit|te gustar|le gustar|pued|más|te|le)\w*|cuál es (?:tu|su|la) (?:pregunta|"
            r"consulta|duda|tarea|solicitud)|en qué (?:pued|te|le)\w*|cómo (?:puedo|te puedo|le puedo)|"
            r"cuando (?:quiera|guste|dese|est)\w*|no dud[ea]s?|si (?:tienes|tiene|necesitas|necesita|quieres|quiere|"
            r"hay)|díme?lo|dímelo|a (?:tu|su|vuestra) (?:disposición|servicio)|(?:quedo|estoy|quedamos|"
            r"estamos) (?:a la espera|atent[oa]|a (?:tu|su))|(?:espero|esperando) (?:tus?|sus?|la)|envía?(?:me|lo)|"
            r"mánd[ae](?:me|lo)|adelante con",
        ),
        Pair(  # what the user asked for
            "(?:perfectamente |bien |muy bien )?(?:que|lo que|lo|qué|cómo|el|la|los|las|al|tu|tus|su|sus|est[aeo]s?|"
            "es[aeo]s?|tod[oa]s?|cada|a|(?:usted |tú )?(?:quier(?:es|e)|dese(?:as|a)|necesit(?:as|a)|pid(?:es|e)|"
            "prefier(?:es|e)))",
            r"(?:solicitud|petici[oó]n|pedido|pregunta|consulta|instrucci[oó]n|indicaci[oó]n|tarea|regla|requisito|"
            r"requerimiento|mensaje|situaci[oó]n|contexto|encargo|duda|necesidad|objetivo|formato|preocupaci[oó]n|"
            r"norma|usuario|confusi[oó]n|aclaraci[oó]n)(?:e?s)?(?= (?:y|ahora|perfectamente|bien|que|anterior|"
            r"correctamente|completamente|como|con|en|del usuario)\b|$)|(?:quier|dese|necesit|prefier|solicit|gustar|"
            r"quis|dices|dice\b)\w*|pid(?:e|es|en|ió|iste)\b|pediste|debo\b|tengo que\b",
        ),
    ),
    substance="es|son|está|están|era|fue|hay|no|sí|porque|debido|significa|tiene|contiene|existe|falla|falló|funciona|"
    "imposible|pero",
)
FRENCH = Language(
    letters="a-zà-ɏ",
    assent="oui|bien sûr|bien entendu|certainement|absolument|tout à fait|exact|exactement|évidemment|effectivement|"
    "en effet|volontiers|avec plaisir|pas de problème|pas de souci|aucun problème|naturellement|correct|vrai|"
    "oui bien sûr|possible",
    polite="ok|okay|d'accord|bien|très bien|bon|parfait|super|génial|excellent|entendu|compris|bien compris|noté|"
    "c'est noté|bien noté|c'est entendu|c'est compris|c'est clair|c'est parfait|c'est bon|reçu|bien reçu|message reçu|"
    "ça marche|je vois|je comprends|merci|merci beaucoup|bonjour|bonsoir|salut|ah|oh|eh bien|alors|et|mais|maintenant|"
    "désormais|dorénavant|à présent|s'il vous plaît|s'il te plaît|pardon|désolé|désolée|mes excuses|excusez-moi|"
    "excuse-moi|toutes mes excuses|directement|immédiatement|tout de suite|parfaitement|complètement|clairement|cela|"
    "ça|vous|tu|donc|c'est parti|je vous prie|je t'en prie|je vous écoute|je t'écoute|ensuite|aussi|également|"
    "simplement|sinon|je m'y mets|reprenons|autrement|brièvement|clairement|bref|brève|concis|concise|j'ai bien noté|"
    "bien noté|de rien|je vous en prie|à vos ordres|je note|je prends note|par conséquent|c'est ça|voilà|allons-y|"
    "allez",
    pairs=(
        Pair(  # thanks and apologies
            "merci (?:beaucoup |bien |encore )?(?:pour|de|d')|je vous remercie|je te remercie|(?:désolée?|pardon|"
            "toutes mes excuses|mes excuses|je m'excuse|je suis désolée?) (?:pour|de)|veuillez m'excuser|je m'excuse",
        ),
        Pair(  # what the speaker will do
            r"(?:(?:et|donc|alors) )?(?:je (?:(?:vous|te|le|la|les|y|m'|l'|en) ?){0,2}(?:vais|suis (?:prête?|là|à|"
            r"disponible|votre|tout|en mesure)|reste|ferai|peux (?:vous|t'|répondre)|tâcherai|commence|procède|"
            r"m'efforce|(?!pourrai|devrai)\w{2,}rai)|j'(?:en |y )?\w{2,}rai|je (?:l'|m'|m'en |n'utilise que |y )\w+|"
            r"nous allons|on (?:peut|va)|laissez-moi|laisse-moi|permettez-moi|\w+ons\b)|sans|en|y (?:répondre|"
            r"procéder|veiller|aller)|de (?:manière|façon|mon mieux)|avec (?:plaisir|soin|précision|clarté|concision|"
            r"la plus|le plus)|selon|conformément|uniquement|seulement|si|quand|lorsque|sauf|dès|à partir|pour|dans|"
            r"comme|à (?:votre|ta|vos|tes|chaque|toutes|la|l'|partir)|aux?|(?<=et )(?:claire?|concise?|précise?|"
            r"directe?|honnête|\w+ment$|\w+rai|vais|utiliser|suivre|respecter)|voici|tout",
            r"répon[ds]|réponse|question|demande|outils?\b|appeller|appel d|fonctions?\b|instruction|consigne|règle|"
            r"format|schéma|directive|indiqué|aide[rz]?|aide\b|aid|assist|servi|mon mieux|de mon mieux|possible|suivr|"
            r"respect|conform|continu|commen|procéd|poursui|avan|bref|brève|concis|clair|direct|simple|texte|français|"
            r"anglais|langue|expliqu|explication|compte|prêt|disposition|disponible|là pour|les? (?:suiv|utilis|appel|"
            r"respect|appliqu)|l'(?:utilis|appel)|nécessaire|besoin|attent|voulu|demandé|précis|efforc|en tenir|"
            r"mieux\b|ment$|honnête|recours|utiliser|dirai|prévien|inform|savoir|signal|occupe|travail|écoute|répondre",
        ),
        Pair(  # what the speaker will not do
            r"(?:(?:et|donc) )?(?:je (?:ne |n')(?:\w+rai|vais) (?:pas|plus|aucune?|jamais|qu)|je n'utiliserai|"
            r"pas d[e']|pas|sans|ni|aucun|aucune|inutile|éviter|en évitant)",
            r"outils?\b|explication|détour|superflu|inutile|préambule|introduction|commentaire|fioriture|bavardage|"
            r"fonctions?\b|markdown|listes?\b|puces|nécessaire|nécessité|supplémentaire",
        ),
        Pair(  # what the user may do next
            r"(?:vous pouvez|tu peux) (?:m'envoyer|me dire|me poser|m'écrire|me donner)|(?:vous pouvez|"
            r"tu peux) compter sur moi|(?:par quoi|par où) (?:voulez|souhaitez|veux|on|dois|puis|commen)\w*|"
            r"(?:vous pouvez|tu peux|vous pourrez) (?:(?:maintenant|donc|me|m'|toujours|"
            r"à présent) ?){0,2}(?:(?:continuer|poursuivre|commencer|procéder|y aller)(?= (?:quand|dès|maintenant|"
            r"avec votre|avec vos)\b|$)|(?:poser|envoyer|dire|demander|interroger)(?:-moi)?(?= (?:la suite|le reste|"
            r"la question|votre|vos|ta|tes|ce que|tout|une question|des questions|quand|dès)\b|$))|"
            r"pose[zr]?(?:-moi)? (?:votre|vos|ta|tes|la|les|une)|(?:dites|dis)-moi (?:ce|en|comment|votre|ta|tout)|"
            r"n'hésite[zs]? pas|que puis-je|comment puis-je|en quoi puis-je|en quoi|quelle est (?:votre|ta|"
            r"la) (?:question|demande|tâche|suite|prochaine)|que (?:voulez|souhaitez|désirez|veux|puis|voudriez)|"
            r"qu'(?:est-ce que|aimeriez|attendez)|je (?:vous|t')écoute|je (?:vous )?suis tout|à (?:vous|toi|votre|"
            r"ta)(?: tour| de jouer| service| disposition| écoute)?|j'attends (?:votre|vos|ta|tes|la)|quand (?:vous|"
            r"tu) (?:voulez|veux|voudr|le souhait|êtes|es)\w*|allez-y|vas-y|(?:continuez|continue|poursuivez|"
            r"poursuis)(?= (?:avec votre|quand|dès)\b|$)|continuons|commençons|poursuivons|demande[zr]?(?:-moi)|"
            r"envoie[zr]?(?:-moi)|prêt|prête|y a-t-il|avez-vous|as-tu",
        ),
        Pair(  # what the user asked for
            "(?:parfaitement |bien |très bien )?(?:ce que|ce qu'|que|qu'|comment|le|la|les|l'|votre|vos|ta|ton|tes|"
            "ces|ce|cette|tout|toutes|tous|mes|mon|ma|vous|tu)",
            r"(?:demande|requête|question|consigne|instruction|règle|tâche|exigence|besoin|message|situation|contexte|"
            r"objectif|format|attente|préoccupation|directive|contrainte|point|utilisateur|remarque|mission|rôle|"
            r"confusion|précision)s?(?= (?:et|maintenant|parfaitement|bien|que|à|ci-dessus|données?|fournies?|"
            r"clairement|précédentes?|de l'utilisateur)\b|$)|(?:souhait|voul|dési|veux|veut|aimeri|attend|demand|"
            r"préf)\w*|je dois\b|il faut\b",
        ),
    ),
    substance="est|sont|était|a|ont|ne|n'|pas|parce|car|mais|non|oui|signifie|contient|existe|échoue|fonctionne|"
    "impossible|manque|peux pas|s'agit",
)
GERMAN = Language(
    letters="a-zà-ɏ",
    assent="ja|jawohl|jo|na klar|klar doch|natürlich|selbstverständlich|sicher|gewiss|genau|richtig|stimmt|korrekt|"
    "absolut|auf jeden fall|kein problem|gern|gerne|sehr gerne|sehr gern|aber natürlich|ja natürlich|ja gerne",
    polite="ok|okay|okey|gut|sehr gut|na gut|alles gut|schön|prima|super|perfekt|toll|wunderbar|ausgezeichnet|klasse|"
    "klar|alles klar|geht klar|verstanden|alles verstanden|verstehe|ich verstehe|in ordnung|einverstanden|notiert|"
    "zur kenntnis genommen|angekommen|wird gemacht|mache ich|mach ich|danke|vielen dank|danke schön|dankeschön|"
    "danke sehr|besten dank|hallo|guten tag|hi|ach|ah|oh|ach so|aha|also|so|dann|nun|jetzt|ab jetzt|ab sofort|und|"
    "aber|bitte|entschuldigung|verzeihung|sorry|tut mir leid|es tut mir leid|sofort|gleich|direkt|vollständig|"
    "komplett|vollkommen|genau so|das|dies|es|sie|alles|auch|außerdem|künftig|ich|zu befehl|von nun an|von jetzt an|"
    "von nun an gilt|ab jetzt gilt|ab sofort gilt|von jetzt an gilt|somit|daher|sonst|andernfalls|ansonsten|auf geht|"
    "los geht|knapp|kurz|kurz und knapp|präzise|klar und deutlich",
    pairs=(
        Pair(  # thanks and apologies
            "(?:danke|vielen dank|besten dank|herzlichen dank|sorry) (?:für|dass)|(?:ich bitte um )?(?:entschuldigung|"
            "verzeihung|entschuldige|entschuldigen sie|verzeih|verzeihen sie)(?: (?:für|wegen|bitte|die|das|den))?|"
            "(?:es )?tut mir leid (?:für|wegen)",
        ),
        Pair(  # what the speaker will do
            r"(?:(?:und|dann|daher|also|nun|jetzt|künftig|sonst|andernfalls|dabei|gegebenenfalls|ansonsten|"
            r"zudem) )?(?:(?:ich|wir) (?:werden?|will|wollen|soll|darf|möchte|antworte|beantworte|verwende|nutze|"
            r"benutze|rufe|helfe|halte|befolge|folge|beginne|fange|starte|mache|gebe|bleibe|stehe|freue|warte|bin|"
            r"erkläre|fasse|beachte|berücksichtige|setze|gehe|teile|lege|melde|greife|formuliere|schreibe|versuche|"
            r"bemühe|richte|orientiere|tue|kann ihnen|kann dir)|(?:(?:werkzeuge?|tools|funktionen) )?(?:teile|werde|"
            r"rufe|verwende|nutze|benutze|halte|antworte|beantworte|befolge|helfe|beginne|mache|gebe|greife|setze|"
            r"bleibe|stehe|freue|fasse|tue|folge|bin|erkläre|kann|richte|warte|melde|sage|frage|informiere) (?:ich|"
            r"wir|(?:die|den|mich|es|das|direkt|ihnen|ihre|deine|alle|dir|gern|gerne|mein|danach|daran|kurz))|"
            r"(?<=und )(?:gehe|bleibe|halte|antworte|helfe|befolge|folge)|lassen sie uns|lass uns|lass mich|"
            r"lassen sie mich|\w+en wir)|wann immer|ohne|mit (?:werkzeug|einer|kurz|klar)|auf (?:deutsch|englisch|"
            r"ihre|deine|die)|in (?:kurz|klar|einfach|einem|deutsch|der|ganz|wenig|knapp)|nach|gemäss|entsprechend|"
            r"anhand|wenn|falls|sofern|sobald|solange|bei (?:fragen|jeder|allen)|nur (?=werkzeug|wenn|direkt|kurz|"
            r"auf deutsch)|ausschliesslich|so (?:gut|kurz|knapp|präzise|klar|genau)|und zwar|wie|kurz|knapp|klar|"
            r"im (?:rahmen|format)|zu (?:ihrer|deiner)|ihre|deine|nach bestem|um",
            r"antwort|beantwort|werkzeug|tool|funktion(?:en|saufruf)|anweisung|vorgabe|regeln\b|richtlinie|format|"
            r"schema|frage|anfrage|anliegen|wunsch|gewünscht|aufgabe|helf|hilf|hilfe|unterstütz|assist|dienst|"
            r"verfügung|bestes|bestem|bestmöglich|befolg|einhalt|halte|beacht|respekt|weitermach|weiter\b|fortfahr|"
            r"fortsetz|beginn|anfang|loslegen|leg(?:e|en)? los|los\b|kurz|knapp|präzise|klar|direkt|einfach|deutsch|"
            r"englisch|text\b|sprache|erklär|bereit|(?:rufe|verwende|nutze|benutze|setze) (?:ich|wir)? ?(?:es|sie|"
            r"diese|eines|eins|das)|bedarf|nötig|erforderlich|notwendig|brauch|benötig|freu|warte|nächste|verlangt|"
            r"bitte\w*|mühe|bescheid|mit$|zurück$|darauf\b|vor$|vorgehen|entsprechend|berücksichtig|danach\b|"
            r"danach richt|sparsam|möglich|behilflich|arbeit\b|daran\b|losleg|losgeh|weitergeh",
        ),
        Pair(  # what the speaker will not do
            r"(?:(?:ich|wir|und|dabei|also) ){0,2}(?:werde|verwende|nutze|benutze|verzichte|vermeide|brauche|"
            r"rufe)? ?(?:ich )?(?:(?:dabei|dafür|auf|jetzt) )?(?:kein|keine|keinen|keinerlei|nicht|ohne|verzichte|"
            r"vermeide)\b|auf",
            r"werkzeug|tools?\b|funktion(?:en|saufruf)|erklärung|erläuterung|umschweife|floskel|drumherum|abschweif|"
            r"füll|vorrede|einleitung|kommentar|aufzählung|listen?\b|markdown|überflüssig|unnötig|zusätzlich|nötig",
        ),
        Pair(  # what the user may do next
            r"(?:sie können|du kannst) mir (?:[^.]{0,20} )?(?:schicken|senden|sagen|stellen|geben)$|(?:sie können|"
            r"du kannst|ihr könnt) (?:(?:jetzt|nun|mir|gern|gerne|jederzeit|ruhig|mit|ihre|deine|frage|"
            r"fragen) ){0,4}(?:frag|stell|fortfahr|weiter|beginn|anfang|loslegen|schick|send|sag)\w*(?= (?:ihre|deine|"
            r"mir|wenn)\b|$)|(?:stell|stelle|stellen sie)(?: mir)?(?: bitte| gern| gerne| einfach| nun|"
            r" jetzt)?(?: ihre| deine| die| eine)|frag(?:e|en sie)?(?: mich| einfach| ruhig| gern| gerne)|(?:schiess|"
            r"schiessen sie|leg|legen sie|fang|fangen sie|mach|machen sie) (?:einfach |ruhig |gern |bitte )?(?:los|an|"
            r"weiter)$|machen wir weiter|weiter geht|los geht|was (?:möchte|kann ich|darf ich|willst|wollen|brauch|"
            r"soll ich|benötig)\w*|wie (?:kann|darf|lautet) (?:ich|ihre|deine|die)|womit (?:kann|darf)|wobei (?:kann|"
            r"darf|brauch)|worum geht|was (?:ist|lautet) (?:ihre|deine|die) (?:frage|aufgabe)|wofür|ich (?:bin|"
            r"stehe) (?:ganz|bereit|jetzt|gern|gerne|für|da|zu|ihnen|dir)|(?:bin |stehe )?(?:bereit|jederzeit|gern|"
            r"gerne) ?(?:bereit|zu|für|wenn)?|(?:ich )?(?:warte|freue mich|höre)|sag(?:en sie)?(?: mir)?(?: einfach|"
            r" bitte| gern)? (?:was|womit|wie|wobei|wenn|bescheid|mir)|gib mir|(?:teilen sie|nennen sie|nenne|"
            r"schicken sie|schick|sende|senden sie)(?: mir)?(?: einfach| bitte)? (?:ihre|deine|die|den)|haben sie|"
            r"hast du|zögern sie|zögere nicht|es kann (?:losgehen|weitergehen)|fahren sie (?:bitte |gern |"
            r"gerne )?fort|fahr (?:bitte |gern |gerne )?fort|nur zu|bitte sehr",
            r"frag|los\b|an$|fortfahr|schick|send|sag|weiter|fort\b|zu$|möchte|kann ich|darf|helf|hilf|hören|höre|"
            r"geht es|geht|bereit|verfügung|da\b|freu|warte|jederzeit|gern|aufgabe|anliegen|anfrage|wunsch|bescheid|"
            r"brauch|benötig|lautet|soll ich|sehr|nicht|zögern|woll|willst|loslegen|beginn|stell|nächst|rest\b|losgeh|"
            r"weitergeh",
        ),
        Pair(  # what the user asked for
            r"(?:(?:dass|was|wie|und|genau|vollständig|also|so|die|der|das|den|dem|ihre?n?|deine?n?|eure|diese[nrs]?|"
            r"alle|alles|jede|meine?|es) ){0,3}(?:(?:sie|du|ihr|er|man) (?:möchte|hätten? gern|woll|will|wünsch|"
            r"brauch|benötig|erwart|bitte|mein|von mir|mir|mich|eine|einen|ein|gesagt|gefragt|haben)\w*)|(?:dass|was|"
            r"wie|worum|worauf) (?:es |sie|du|ich)|(?:die|der|das|den|ihre?n?|deine?n?|eure|diese[nrs]?|alle|alles|"
            r"jede|meine?)",
            r"(?:frage|anfrage|anweisung|aufgabe|anliegen|regel|vorgabe|anforderung|wunsch|wünsche|nachricht|"
            r"situation|kontext|ziel|format|bitte|bedürfnis|erwartung|aufgabenstellung|richtlinie|sorge|bedenken|"
            r"hinweis|nutzer\w*|benutzer\w*|problem|rolle|auftrag)(?:n|en|s)?(?= (?:und|jetzt|nun|vollständig|genau|"
            r"von|des|klar|gut|an)\b|$)|möchte|woll|will|wünsch|brauch|benötig|erwart|bitte[nt]|gemeint|mein(?:st|"
            r"en)\b|verlang|gebeten|ihnen geht|dir geht|ankommt|hätte|soll\b|muss\b|gesagt|gefragt",
        ),
    ),
    substance=r"ist|sind|war|waren|hat|hatte|nicht|kein\w*|weil|da|denn|aber|gibt|nein|ja|bedeutet|enthält|existiert|"
    r"fehlt|läuft|funktioniert|liegt|leider|unmöglich|weiss|kenne",
    capitals=False,
)
PORTUGUESE = Language(
    letters="a-zà-ɏ",
    assent="sim|claro|claro que sim|com certeza|certamente|certo|correto|exato|exatamente|isso|isso mesmo|sem dúvida|"
    "sem problema|sem problemas|naturalmente|pode ser|verdade|é claro|pois não|com prazer",
    polite="ok|okay|tá|tá bom|tá certo|está bem|bem|muito bem|bom|ótimo|perfeito|excelente|maravilha|beleza|legal|"
    "combinado|de acordo|compreendido|compreendi|compreendo|entendo|entendido|recebido|anotado|obrigado|obrigada|"
    "muito obrigado|muito obrigada|olá|oi|bom dia|ah|oh|então|e|mas|agora|já|por favor|desculpe|desculpa|perdão|"
    "sinto muito|tudo certo|tudo bem|tudo claro|perfeitamente|completamente|totalmente|diretamente|imediatamente|"
    "a partir de agora|de agora em diante|você|isto|tudo|também|eu|fechado|pronto|farei isso|de nada|à vontade|"
    "agora sim|agora mesmo|pode deixar|deixa comigo|caso contrário|senão|conciso|breve|claro e conciso|objetivo|"
    "brevemente|claramente",
    pairs=(
        Pair(  # thanks and apologies
            r"(?:muito )?obrigad[oa] (?:por|pel[oa]s?)|agradeço|(?:desculp\w+|perdão|perdoe|lamento|"
            r"sinto muito)(?: por| pel[oa]s?| a| o| qualquer)?",
        ),
        Pair(  # what the speaker will do
            r"(?:(?:eu|já|também|só|sempre|assim|então|agora|lhe|te|me|as|os) ){0,3}(?:vou|vamos|irei|estou|estarei|"
            r"fico|procuro|posso ajudar|(?!poderei|precisarei|deverei)\w{2,}rei)|sem|com (?:prazer|cuidado|precisão|"
            r"clareza|base|o máximo)|em (?:português|inglês|texto|formato|json|poucas|caso|função|um)|de (?:forma|"
            r"maneira|modo|acordo|agora)|segundo|conforme|seguindo|usando|utilizando|só|somente|apenas|quando|se|"
            r"salvo|exceto|a menos|sempre|a partir|desde|o (?:mais|melhor)|para|como|à|ao|às|aos",
            r"respond|resposta|pergunt|consult|ferramenta|funç(?:ão|ões)|instruç|orienta|regras|normas|format|esquema|"
            r"pedid|solicita|tarefa|ajud|auxili|servi[rç]|possível|melhor|segui|cumpr|respeit|continu|prossegu|"
            r"come[cç]|inici|proced|adiante|breve|concis|objetiv|clar[oa]|diret|simples|texto|português|inglês|idioma|"
            r"explica|pront[oa]|dispost|disposição|aqui|(?:usá|utilizá|chamá|invocá|segui|cumpri)-|chamar|necess|"
            r"precis|esper|atent|detalh|esfor|ouvindo|conta\b|avis|inform|saber|dizer|ocup|trabalho",
        ),
        Pair(  # what the speaker will not do
            "(?:(?:e|já|então|eu) )?(?:não|nunca|nem|sem|evitar(?:ei)?|evitando)",
            r"ferramenta|explica|rodeios|enrola|preâmbulo|introdu|comentári|adiciona|extras?\b|funções|markdown|"
            r"listas|necess|desnecess|for preciso",
        ),
        Pair(  # what the user may do next
            r"(?:você )?(?:pode[ms]?|podem) (?:(?:já|me|agora|sim) )?(?:(?:continu|prossegu|segui|come[cç]|"
            r"inici)\w*(?= (?:quando|com a sua|com sua|agora|já)\b|$)|(?:pergunt|envi|mand|diz|faz|cont|fal|"
            r"coloc)\w*(?= (?:a sua|sua|suas|o resto|a pergunta|a próxima|quando|agora|já|o que)\b|$))|"
            r"(?:me )?(?:diga|conte|fale|pergunte)(?:-me)?(?= (?:o que|em que|como|sua|qual|à|$)|$)|faça (?:a )?sua|"
            r"(?:continue|prossiga|siga)(?= (?:com sua|quando|por favor)\b|$)|vamos|comecemos|continuemos|"
            r"o que (?:você )?(?:quer|deseja|precisa|gostaria|posso)|qual é (?:a |o )?(?:sua |tua |seu )?(?:pergunta|"
            r"dúvida|tarefa|pedido|questão)|em que posso|como posso|no que posso|quando (?:quiser|você|estiver|"
            r"precisar)|fique à vontade|sinta-se|(?:estou |fico )?à (?:sua )?disposição|(?:estou |"
            r"fico )?(?:no aguardo|aguardando|aguardo)|é só|não hesite|mande|envie|manda|pode (?:falar|mandar|vir)",
        ),
        Pair(  # what the user asked for
            "(?:perfeitamente |bem )?(?:que|o que|o|como|a|os|as|seu|sua|seus|suas|teu|tua|ess[ea]s?|est[ea]s?|"
            "tod[oa]s?|cada|tudo|você|à|ao)",
            r"(?:solicita(?:ção|ções)|pedido|pergunta|consulta|instruç(?:ão|ões)|orienta(?:ção|ções)|tarefa|regra|"
            r"requisito|mensagem|situação|contexto|dúvida|necessidade|objetivo|formato|preocupação|norma|usuário|"
            r"demanda|confusão|ponto)s?(?= (?:e|agora|perfeitamente|bem|que|anterior|corretamente|completamente|como|"
            r"do usuário)\b|$)|(?:quer|dese|precis|prefer|solicit|gostari|pediu|pede|pedind|diss)\w*|devo\b|"
            r"tenho que\b",
        ),
    ),
    substance="é|são|está|estão|era|foi|há|não|sim|porque|pois|significa|tem|contém|existe|falha|falhou|funciona|"
    "impossível|mas|porém|já está",
)
ITALIAN = Language(
    letters="a-zà-ɏ",
    assent="sì|si|certo|certamente|certo che sì|naturalmente|ovviamente|esatto|esattamente|giusto|corretto|"
    "assolutamente|senz'altro|senza dubbio|nessun problema|volentieri|con piacere|vero",
    polite="ok|okay|va bene|bene|molto bene|benissimo|perfetto|ottimo|eccellente|fantastico|d'accordo|capito|"
    "tutto chiaro|chiaro|è chiaro|inteso|ricevuto|messaggio ricevuto|annotato|preso nota|prendo nota|comprendo|"
    "capisco|grazie|grazie mille|molte grazie|ciao|salve|buongiorno|ah|oh|ecco|allora|e|ma|ora|adesso|per favore|"
    "prego|scusa|scusi|scusami|mi scusi|mi dispiace|chiedo scusa|le mie scuse|perfettamente|completamente|"
    "direttamente|subito|immediatamente|d'ora in poi|da ora in poi|da adesso|lei|tutto|anche|inoltre|io|ti ascolto|"
    "la ascolto|lo farò|sarà fatto|quindi|bene così|altrimenti|in caso contrario|conciso|breve|chiaro e conciso|"
    "sintetico|brevemente|chiaramente",
    pairs=(
        Pair(  # thanks and apologies
            r"(?:molte )?grazie(?: mille)? (?:per|del|della|dell'|dei|di)|ti ringrazio|la ringrazio|(?:scus\w+|"
            r"mi dispiace|chiedo scusa|mi scuso|perdon\w+)(?: per| della| dell'| del| il| la)?",
        ),
        Pair(  # what the speaker will do
            r"(?:(?:io|ne|già|anche|solo|sempre|così|quindi|allora|ora|ti|le|vi|li|lo|la|mi|e) ){0,3}(?:sto per|"
            r"procedo|sono|resto|rimango|cerco|posso aiutar|(?!potrò|dovrò)\w{2,}rò|\w+iamo)|senza|con (?:piacere|"
            r"cura|precisione|chiarezza|la massima)|in (?:italiano|inglese|modo|maniera|formato|json|testo|base|poche|"
            r"breve|un|caso)|in modo|secondo|seguendo|usando|utilizzando|solo|soltanto|quando|se|salvo|tranne|a meno|"
            r"sempre|a partire|da (?:ora|adesso|questo)|il (?:più|meglio)|per|come|all[ae']?|ai|al",
            r"rispond|rispost|domand|richiest|strument|funzion(?:i|e)\b|istruzion|indicazion|regole|format|schema|"
            r"compit|aiut|assist|serv|possibile|meglio|segu|rispett|attener|continu|proced|prosegu|inizi|cominc|"
            r"avanti|breve|concis|sintetic|chiar[oa]|dirett|semplic|testo|italiano|inglese|lingua|spiega|pront[oa]|"
            r"disposizione|qui\b|(?:li|lo|la|le) (?:user|utilizzer|chiamer|invocher|rispetter|seguir)ò|necessari|"
            r"servon|bisogno|conto\b|attes|atten|impegn",
        ),
        Pair(  # what the speaker will not do
            r"(?:(?:e|già|quindi) )?(?:non|mai|né|senza|evitand?o?|eviterò|niente|nessun\w*)",
            "strument|spiegazion|giri di parole|preambol|introduzion|comment|aggiuntiv|extra|superflu|fronzoli|"
            "funzioni|markdown|elenchi|necessari|servon",
        ),
        Pair(  # what the user may do next
            r"(?:puoi|può|potete) (?:(?:pure|ora|già|adesso) )?(?:(?:continu|proced|prosegu|inizi|"
            r"cominc)\w*(?: pure)?(?= (?:quando|ora|con la tua|con la sua)\b|$)|(?:chied|mand|invi|far|dir|scriv|"
            r"porr)\w*(?: pure)?(?= (?:la tua|la sua|la domanda|il resto|una domanda|quello|quando|ora)\b|$))|"
            r"chied(?:i|a|imi|ami)(?= (?:pure|quello|ciò|tutto)|$)|dimmi (?:pure|cosa|come|in)|mi dica(?: pure| cosa|"
            r" come|$)|dimmi$|fammi (?:pure )?(?:la|una|sapere (?:cosa|come|se))|mi faccia (?:la|sapere (?:cosa|come|"
            r"se))|(?:continua|prosegui|procedi|continui|proceda|vai|vada)(?: pure)?(?= (?:con la|quando)\b|$)|"
            r"continuiamo|iniziamo|cominciamo|procediamo|(?:che )?cosa (?:vuo|desider|posso|ti|le|vorre)\w*|"
            r"qual è (?:la|il) (?:tua|sua|tuo|suo)?|in (?:che|cosa) (?:cosa )?posso|come (?:posso|ti posso|la posso)|"
            r"quando (?:vuoi|vuole|desider|preferi|sei|sarai)\w*|non esit\w+|(?:sono |resto |rimango )?(?:a (?:tua|"
            r"sua) disposizione|a disposizione|in attesa|pronto|pronta)|(?:mandami|inviami|mi mandi|mi invii|invia|"
            r"manda)(?: pure)?(?: il| la| le| i|$)|avanti|a (?:te|lei)|attendo|aspetto",
        ),
        Pair(  # what the user asked for
            "(?:perfettamente |bene )?(?:che|quello che|ciò che|cosa|come|il|la|lo|le|i|gli|l'|tua|tuo|tue|tuoi|sua|"
            "suo|quest[aeio]|tutt[aeio]|ogni|quanto|vuoi|vuole|alla|alle)",
            r"(?:richiest[ae]|domand[ae]|istruzion[ei]|indicazion[ei]|compit[oi]|regol[ae]|requisit[oi]|messaggi[oi]?|"
            r"situazione|contesto|dubbi[oi]?|esigenz[ae]|obiettiv[oi]|format[oi]|preoccupazion[ei]|utente|punto|"
            r"confusione)(?= (?:e|ora|adesso|perfettamente|bene|che|precedente|correttamente|dell'utente)\b|$)|"
            r"(?:vuoi|vuole|vorr|desider|chied|chiest|prefer|serv|intend)\w*|devo\b",
        ),
    ),
    substance="è|sono|era|fu|c'è|ci sono|non|no|perché|poiché|significa|ha|contiene|esiste|fallisce|fallito|funziona|"
    "impossibile|ma|però",
)
