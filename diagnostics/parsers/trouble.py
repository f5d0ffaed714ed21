"""Words that tell of trouble, in the languages that shells and programs speak.

``OUTCOMES``: what schedulers call the end of a job. ``TOLD``: words that leave it open whether the run works, where
nothing works behind them. ``NAMED``: those besides which may tell of what is over, or goes in order.
"""

OUTCOMES = (
    r"\b[Jj](?:ob|OB)\b[^|]{0,60}?\bFAILED\b|^(?:[Jj]ob )?(?:[Ss]tatus|STATUS|[Ss]tate|STATE) ?[:=] ?FAILED\b|"
    r"\b[Jj]ob status: FAILED\b|\bstatus: Aborted$|"
    r"\bFAILED +\d+:\d+\b|\bState=(?:FAILED|NODE_FAIL|OUT_OF_MEMORY|BOOT_FAIL)\b|"
    r"\bJobState=(?:NODE_FAIL|OUT_OF_MEMORY)\b|"
    r"\b\d+(?:\.\w+)? +NODE_FAIL\b|(?i:\bjob failed: )"
)
_WHO = r"(?:runner|instance|container|node|pod|task|job|process|rank|worker|peer|actor|gpu)"
_THINGS = r"(?:samples?|tests?|requests?|files?|images?|records?|tokens?|jobs|stale|leftover|background)"
_COUNTED = rf"(?:{_THINGS}|checks?|batches|items?|downloads?)"
_NONE = r"(?:0(?![.\w])|none\b|false\b)"
_NONE_OF_IT = rf"(?!(?: {_COUNTED})?['\"]? ?[:=] ?['\"]?{_NONE})"  # failed samples: 0; not failed rank: 0
_LIMITS = r"(?:quota|deadline|limit|walltime|retries|attempts)"
TOLD = (
    r"(?i:(?<![-/\w])errors?(?![-\w/]|\.\w)(?! (?:rates?|bars?|bounds?|tolerance|correct\w*)\b|[:= ]+[\d.])|"
    r"\b(?:fail(?:ed|ure|s)?|exception|(?:time[sd]? ?out|timing out)\b(?! ?[=:(_\d])|unable|can(?:not|'t)|could not|"
    r"abort(?:ed|ing)|crash(?:ed|es|ing)?|killed|refused|unreachable|denied|fatal|stuck|hangs?|hung|died|no route|"
    r"lost(?!\+| ?\d)|corrupt(?:ed|ion)|unhandled|panic(?:ked)?|not ?ready|unhealthy|evicted|preempted|"
    r"giving up|gave up|unsuccessful|unexpectedly|interrupted|interrupt requested|"
    r"not (?:reported|responded|responding|answering)|"
    r"no (?:progress|step|response|heartbeat)|connection (?:to \S+ )?(?:closed|reset)|enforce fail|soft lockup|"
    r"halted|diverged|divergence detected|(?:exiting|quitting|stopping) (?:due to|because)|"
    rf"segment(?:ation)? fault|essential container in task exited)\b{_NONE_OF_IT}|"
    rf"\b{_WHO}(?: \S+)?(?: (?:was|has been|is|were|are))? (?:terminated|gone|dead)\b(?! gracefully| well| to\b)|"
    rf"\b{_LIMITS}(?: (?:was|is|has been))? exceeded\b|\bexceed(?:s|ed) (?:the |its )?(?:\w+ )?{_LIMITS}\b)|"
    r"^(?:\[\w+\]: ?)?[A-Z]\w+(?:Error|Exception)(?:: |$)|\b[Ee]rrno\b|\b0/\d+ +Error\b|"
    r"(?i:\b(?:assert(?:ion)?) .*failed)|"
    r"(?i:\b(?:abgebrochen|abgest\u00fcrzt|fehlgeschlagen|gescheitert|get\u00f6tet|speicherabzug|fehler\b|\w+fehler\b|"
    r"fall\u00f3|fallo|violaci\u00f3n de segmento|abortado|erreur|\u00e9chec|\u00e9chou\u00e9|abandon|"
    r"errore\b|fallit[oa]\b|erro\b|processus arr\u00eat\u00e9|interrompu|tu\u00e9))|"
    r"(?i:\u043e\u0448\u0438\u0431\u043a|\u043f\u0440\u0435\u0440\u0432\u0430\u043d|\u0441\u0431\u043e\u0439|"
    r"\u0430\u0432\u0430\u0440\u0438\u0439|\u0443\u0431\u0438\u0442)|"
    r"\u5931\u8d25|\u5931\u6557|\u5f02\u5e38|\u7570\u5e38|\u9519\u8bef|\u932f\u8aa4|\u4e2d\u6b62|\u5df2\u6740\u6b7b|"
    r"\u6bb5\u9519\u8bef|\u5f37\u5236\u7d42\u4e86|\uc624\ub958|\uc2e4\ud328|\u30a8\u30e9\u30fc|\u30bb\u30b0\u30e1\u30f3\u30c6"
)
OVER = r"(?i:\bunstuck\b|false[- ]positive|\brecovered\b|\breconnected\b|\bresumed\b|\bsucceeded\b)"
NO_TROUBLE = (  # prose on what may happen, counts of what is no rank, titles of tables, what is over
    rf"{OVER}|(?i:^if |^errors:?$| {{2,}}errors$|\bwhere\b|\b(?:documented|described|listed)\b|\bnot needed\b|"
    r"\b(?:was|were) removed\b|\bnot failed\b|\bin 0 of\b|[,;] (?:keeping|using|logging to)\b|"
    r"\bto import \w+$|non-fatal|\bcache block\b|\balgbw\b|^nslookup: |\bcheck(?:s|ing)? (?:enabled|of)\b|"
    r"\binstall(?:ing|ed)\b.*\bhandler|\bhandler\b.*\binstalled\b|[:=?] ?(?:0|off|none|no|true|false|\[\]|\{\})$|"
    rf"\bKilled (?:\d+ )?{_THINGS}\b|\b\d+ {_THINGS}\b|\b(?:killed|aborted|lost) 0\b|\bfile exists$|group id \d+$)"
)
NAMED = (
    r"(?i:error|fail|exception|abort|kill|signal|time[ds]?[ -]?out|hang|hung|stuck|terminat|dumped|cancel|traceback"
    r"|preempt|evict|lost|unreachable|unhealthy|restart|refused|retry|corrupt|interrupt)"
)
