/**
 * What servers write in notices about a delivery, by language: that a message failed, is delayed, or arrived. Sources are the notices of
 * Exchange and Microsoft 365 in their languages, of national providers, and of common mail servers. Phrases are about the message, not about an
 * address: those may stand in any mail. They are compared without case and without accents, since many servers write neither.
 */

/** Text as phrases are compared: without accents on Latin, Greek and Cyrillic letters, in lower case, with one kind of apostrophe and space. */
export function folded(text: string): string {
  return text
    .normalize('NFD')
    .replace(/[\u0300-\u036f]/g, '')
    .normalize('NFC')
    .replace(/[\u2018\u2019\u02bc`\u00b4]/g, "'")
    .replace(/[ \t\u00a0\u202f]+/g, ' ')
    .toLowerCase();
}

interface Phrases {
  failed: readonly string[];
  delayed: readonly string[];
  delivered: readonly string[];
}

const PHRASES: Readonly<Record<string, Phrases>> = {
  English: {
    failed: [
      'undeliver(?:able|ed)',
      'non-?deliver(?:y|able)',
      "(?:could|can|was|were|is|will|did)(?: ?not|n't|nt) (?:be )?(?:successfully )?(?:deliver|reach(?! out)|forward|relay)",
      "(?:could|can)(?: ?not|n't|nt) (?:be )?(?:sent|send)\\b",
      "(?:has|have)(?: not|n't) been (?:successfully )?(?:deliver|accept)(?!\\w* yet)",
      'not delivered to',
      'deliver(?:y|ing)(?: (?:of|to) [^.]{0,120})? (?:has |have )?(?:permanently )?failed',
      'fail(?:ed|ure)? (?:to |in )?deliver',
      'delivery (?:failure|unsuccessful)',
      '(?:mail|message|e-?mail|delivery|notification|notice)\\W{0,3}fail(?:ed|ure)',
      'failure notice',
      'unable to (?:be )?(?:deliver|send|relay|reach)',
      '(?:error|problem|trouble)s? (?:while )?(?:in )?delivering',
      'return(?:ed|ing)? to (?:the )?sender',
      'return(?:ed|ing) (?:mail|message)',
      'permanent(?:ly)? (?:fatal )?(?:error|fail)',
      'fatal errors?',
      '(?:mail|message|e-?mail)s? (?:(?:that )?you sent |has been |have been |was |were |is )(?:not delivered|rejected|refused|bounced|returned|blocked|discarded)',
      'rejected your (?:mail|message|e-?mail)',
      'bounced? (?:mail|message|e-?mail|notification)',
      'giv(?:en|ing) up',
    ],
    delayed: [
      "(?:has|have)(?: not|n't) yet been delivered",
      "(?:has|have)(?: not|n't) been delivered (?:yet|so far)",
      'still (?:trying|being retried|waiting in)',
      'delivery (?:is |has been |was )?(?:temporarily )?(?:delayed|deferred|suspended)',
      'will (?:keep|continue) (?:on )?(?:to )?(?:try|attempt|retry)',
      'delivery will be (?:re)?(?:tried|attempted)',
    ],
    delivered: [
      'success(?:ful|fully)? (?:mail |message |e-?mail )?(?:deliver|relay|expand|forward|sent|receiv)',
      '(?:deliver(?:y|ed)|relayed|expanded|sent|delivery (?:status )?(?:notification|report|receipt))(?: was| has been| is)? (?:successful|success\\b|complete)',
      'delivery (?:status )?(?:notification|report) \\(success',
      'successful delivery',
      '(?:was|were|has been|have been|is) (?:successfully )?(?:delivered|relayed|expanded)',
      'delivered to (?:the )?(?:mailbox|recipient|local|destination)',
      'delivery (?:to [^.]{0,120} )?is complete',
      'delivery via ',
      '^(?:delivered|relayed|expanded|delivery receipt)\\s?[:(]',
      'return receipt',
    ],
  },
  French: {
    failed: [
      'non[- ]?(?:remis|distribu|delivr|livr|achemin|remise|distribution)',
      "n'(?:a|ont) (?:pas|pu)[^.]{0,20} ?etre (?:remis|distribu|delivr|livr|achemin|envoy|transmis|deliver)",
      "n'(?:a|ont) pas ete (?:remis|distribu|delivr|livr|achemin|envoy|transmis)",
      "(?:n'est|ne sera|ne peut|ne peuvent|n'a) pas (?:pu )?(?:etre )?(?:remis|distribu|delivr|livr|achemin|transmis|atteindre|atteint)",
      "impossible (?:de|d')(?: ?votre)? ?(?:remettre|distribuer|delivrer|livrer|acheminer|envoyer|transmettre)",
      '(?:remise|distribution|livraison|acheminement|delivrance|envoi)[^.]{0,60} (?:a |ont |est )?(?:echou|impossible|refus)',
      "echec (?:de|d'|lors|a|dans)[^.]{0,20}(?:remise|distribution|livraison|acheminement|delivrance|envoi|transmission|message|notif)",
      '(?:message|courriel|mail|e-mail|courrier) (?:a ete |est |vous est )?(?:rejete|refuse|retourne|renvoye|non)',
      "retour(?:ne)? a l'expediteur",
      'erreur (?:permanente|definitive|fatale|de (?:remise|distribution|livraison))',
      'est definitivement abandonne',
    ],
    delayed: [
      '(?:remise|distribution|livraison|acheminement|envoi)[^.]{0,60} (?:retard|differ|report|suspend)',
      'retard (?:de|dans)[^.]{0,20}(?:remise|distribution|livraison|acheminement|envoi)',
      "n'(?:a|ont|est)[^.]{0,20} pas encore (?:pu )?(?:ete |etre )?(?:remis|distribu|delivr|livr|achemin)",
      "n'a toujours pas[^.]{0,20}(?:remis|distribu|delivr|livr|achemin)",
      '(?:tentatives?|essais?)[^.]{0,60} (?:se poursuiv|continu|encore)',
      '(?:continuer|poursuivr)[^.]{0,30}(?:tent|essa)',
    ],
    delivered: [
      '(?:a|ont) (?:bien )?ete (?:bien )?(?:remis|distribue|delivre|livre|achemine|relaye|transmis)(?:e|s|es)? (?:avec succes|a|aux?|au)\\b',
      '(?:remis|distribue|delivre|livre|achemine|relaye|transmis|envoye)(?:e|s|es)? avec succes',
      '(?:remise|distribution|livraison) (?:reussie|effectuee|avec succes)',
      '^(?:remis|relaye|developpe|delivre)(?:e|s)? ?:',
      'accuse de (?:remise|livraison|distribution)',
    ],
  },
  German: {
    failed: [
      'unzustellbar',
      'nicht zustellbar',
      'nicht (?:\\S+ ){0,5}?(?:zugestellt|zustellen|ausgeliefert|ubermittelt|ubertragen|versandt|versendet|weitergeleitet|abgeliefert) ?(?:werden|worden|wurde|konnte)?',
      '(?:zustellung|ubermittlung|auslieferung|zustellversuch)[^.]{0,80} (?:fehlgeschlagen|gescheitert|nicht moglich|unmoglich|schlug fehl|abgebrochen)',
      '(?:fehler|problem)[^.]{0,20} (?:bei|beim|wahrend) (?:der |dem )?(?:zustell|ubermittl|auslieferung|versand|senden)',
      'zustell(?:ungs)?fehler',
      '(?:nachricht|e-?mail|mail)[^.]{0,60} (?:wurde|ist) (?:\\S+ ){0,4}(?:abgelehnt|abgewiesen|zuruckgewiesen|verweigert|zuruckgesandt|zuruckgeschickt)',
      'zuruck an (?:den )?absender',
      'dauerhafter? fehler',
      'nachricht hat die empfanger nicht',
      'hat (?:den|die|einige oder alle)[^.]{0,20}empfanger nicht erreicht',
    ],
    delayed: [
      '(?:zustellung|ubermittlung|auslieferung)[^.]{0,80} verzoger',
      '(?:zustellung|ubermittlung|auslieferung)[^.]{0,80} verzogert',
      'noch nicht (?:zugestellt|ausgeliefert|ubermittelt|zustellen)',
      'wird (?:\\S+ ){0,5}?(?:weiter(?:hin)?|erneut) versuch',
      'verzogerte (?:zustellung|nachricht|e-?mail)',
      'zustellversuche? (?:wird|werden) (?:fortgesetzt|wiederholt)',
    ],
    delivered: [
      'erfolgreich (?:zugestellt|ausgeliefert|ubermittelt|weitergeleitet)',
      'erfolgreiche (?:zustellung|ubermittlung|auslieferung)',
      '(?:wurde|ist|wurden) (?:\\S+ ){0,6}?(?<!nicht )(?:zugestellt|ausgeliefert) ?(?:worden)?',
      '^(?:zugestellt|ubermittelt|weitergeleitet|ausgeliefert|zustellbestatigung)\\s?[:(]?',
      'zustellbestatigung|empfangsbestatigung',
    ],
  },
  Spanish: {
    failed: [
      'no se (?:puede|pudo|pueden|pudieron|ha podido|han podido|podra|logro|ha logrado) (?:entregar|enviar|distribuir)',
      'no (?:ha|han|fue|fueron|pudo|puede|ha podido|pudieron|podra) (?:\\S+ )?(?:sido |ser )?(?:entregad|enviad|entregar|enviar)',
      'no (?:entregad|entregable)',
      'no se (?:ha |han )?(?:entreg(?:o|aron|ado)|envio|enviado)',
      '(?:imposible|incapaz de|no es posible|no fue posible) (?:de )?(?:entregar|enviar|la entrega)',
      '(?:entrega|envio)[^.]{0,80} (?:ha |han )?(?:fall(?:o|ado|ida)|fracas|rechazad|no (?:se )?(?:pudo|ha podido))',
      '(?:error|fallo|falla|problema)s? (?:en|de|al|durante) (?:la |el )?(?:entrega|entregar|envio|enviar)',
      '(?:mensaje|correo)[^.]{0,40} (?:ha sido |fue |esta siendo )?(?:rechazado|devuelto|rebotado)',
      'devuelto al remitente',
      'error (?:permanente|fatal)',
    ],
    delayed: [
      '(?:entrega|envio|mensaje)[^.]{0,60} (?:retrasad|demorad|aplazad|diferid|pospuest)',
      '(?:retraso|demora) (?:en|de) (?:la )?(?:entrega|envio)',
      '(?:todavia|aun) no (?:se )?(?:ha|han|pudo|fue)',
      'se (?:seguira|continuara)[^.]{0,40}(?:intent|tratando)',
      'seguir(?:a|emos)? intentando',
    ],
    delivered: [
      '(?:entregad|enviad|retransmitid|reenviad)[oa]s? (?:correctamente|con exito|satisfactoriamente|exitosamente)',
      '(?<!no )(?<!no se )(?:ha|han|fue|fueron|se ha|se han) (?:sido )?entregad[oa]s? (?:a|al|en|correctamente)',
      'entrega (?:correcta|exitosa|satisfactoria|completada)',
      '^(?:entregad|retransmitid|expandid)[oa]s? ?:',
      '(?:confirmacion|acuse) de (?:entrega|recibo)',
    ],
  },
  Italian: {
    failed: [
      'mancat[oa] (?:recapito|consegna|invio)',
      'non (?:e stato |e |sono stati |puo essere |possono essere |ha potuto essere |e possibile |e stato possibile |si e potuto )*(?:\\S+ )?(?:consegna|recapita|inviat|inviare|inoltrat|spedit)',
      'non (?:consegnat|recapitat|recapitabil|consegnabil)',
      'impossibile (?:consegnare|recapitare|inviare|inoltrare|spedire)',
      '(?:consegna|recapito|invio)[^.]{0,80} (?:e |ha |sono )?(?:fallit|non riuscit|respint|rifiutat|impossibil)',
      "(?:errore|problem[ai]|fallimento) (?:di|nel|nella|durante) (?:la |il |l')?(?:consegn|recapit|invio)",
      '(?:messaggio|e-?mail|mail)[^.]{0,40} (?:e stat[oa] |viene |e )?(?:rifiutat|respint|restituit|rimbalzat)',
      'restituit[oa] al mittente',
      'errore (?:permanente|definitivo|fatale)',
    ],
    delayed: [
      '(?:consegna|recapito|invio|messaggio)[^.]{0,60} (?:ritardat|in ritardo|rimandat|rinviat|posticipat)',
      'ritardo (?:nella|nel|di|della|del) (?:consegna|recapito|invio)',
      "non (?:e|sono|e') (?:stat[oi] )?ancora (?:stat[oi] )?(?:consegnat|recapitat|inviat)",
      '(?:continuera|continueremo|proseguira)[^.]{0,40}(?:tent|prov)',
      '(?<!non )(?:verranno|saranno) (?:\\S+ )?(?:altri|ulteriori|nuovi) tentativi',
    ],
    delivered: [
      '(?:consegnat|recapitat|inoltrat|trasmess|inviat)[oaie] (?:correttamente|con successo)',
      '(?<!non )(?:e stato|sono stati|e stata) (?:consegnat|recapitat|inoltrat)[oai] (?:a|ai|al|alla|alle|nella)\\b',
      '(?:consegna|recapito) (?:riuscit|avvenut|completat|effettuat)',
      '^(?:consegnat|recapitat|inoltrat|espans)[oa] ?:',
      'ricevuta di (?:avvenuta )?(?:consegna|ritorno)|conferma di (?:consegna|recapito)',
    ],
  },
  Portuguese: {
    failed: [
      'nao (?:foi |foram |pode |podem |poude |pude |esta |e |sera |pode ser |puderam |pude ser |pode ter sido )*(?:possivel )?(?:ser )?(?:entreg|enviad|enviar|encaminhad)',
      'nao entreg(?:ue|avel)',
      'impossivel (?:entregar|enviar)|impossibilidade de entrega',
      '(?:entrega|envio)[^.]{0,80} (?:falhou|falharam|falha|fracass|malsuced|rejeitad|recusad)',
      '(?:falha|erro|problema)s? (?:na|no|de|ao|durante) (?:a |o )?(?:entrega|entregar|envio|enviar)',
      '(?:mensagem|e-?mail|correio)[^.]{0,40} (?:foi |esta sendo )?(?:rejeitad|recusad|devolvid|retornad)',
      'devolvid[oa] ao remetente',
      'erro (?:permanente|fatal|definitivo)',
    ],
    delayed: [
      '(?:entrega|envio|mensagem)[^.]{0,60} (?:atrasad|adiad|retardad|demorad)',
      'atraso (?:na|no|de) (?:entrega|envio)',
      'ainda nao (?:foi|foram|pode)',
      '(?:continuara|continuaremos|continua)[^.]{0,40}tenta',
    ],
    delivered: [
      '(?:entregues?|enviad[oa]s?|retransmitid[oa]s?|encaminhad[oa]s?) (?:com (?:sucesso|exito)|corretamente)',
      '(?<!nao )(?:foi|foram) entregues? (?:a|ao|aos|as|na|no|para)\\b',
      'entrega (?:bem[- ]sucedida|concluida|efetuada|com sucesso)',
      '^(?:entregue|retransmitid[oa]|expandid[oa]) ?:',
      '(?:confirmacao|aviso|recibo) de (?:entrega|recebimento)',
    ],
  },
  Dutch: {
    failed: [
      'onbestelbaar',
      '(?:kan|kon|konden|kunnen|is|zijn|werd|wordt) (?:\\S+ ){0,6}?niet (?:\\S+ ){0,3}?(?:worden |te )?(?:afgeleverd|bezorgd|geleverd|verzonden|afleveren|bezorgen|besteld|verstuurd)',
      'niet (?:be|af)?geleverd|niet bezorgd|niet afgeleverd|niet bestelbaar',
      '(?:bezorging|aflevering|levering|verzending)[^.]{0,80} (?:is )?(?:mislukt|niet gelukt|geweigerd|onmogelijk)',
      '(?:fout|probleem) (?:bij|tijdens) (?:het |de )?(?:bezorg|aflever|lever|verzend)',
      '(?:bericht|e-?mail|mail)[^.]{0,40} (?:is |werd |wordt )?(?:geweigerd|geretourneerd|teruggestuurd)',
      'retour (?:aan )?afzender',
      'permanente fout',
    ],
    delayed: [
      '(?:bezorging|aflevering|levering|verzending)[^.]{0,60} (?:is )?(?:vertraagd|uitgesteld)',
      'vertraging (?:bij|in|van)',
      'nog niet (?:be|af)?(?:geleverd|zorgd)|nog niet bezorgd',
      '(?:blijft|blijven) (?:\\S+ ){0,4}(?:proberen|geprobeerd)|(?:wordt|worden) (?:\\S+ ){0,4}opnieuw geprobeerd',
    ],
    delivered: [
      '(?:succesvol|met succes) (?:afgeleverd|bezorgd|geleverd|doorgestuurd|verzonden)',
      '(?:is|zijn|werd) (?:\\S+ )?(?<!niet )(?:afgeleverd|bezorgd) (?:aan|bij|in|op)\\b',
      '^(?:afgeleverd|bezorgd|doorgestuurd) ?:',
      '(?:bezorgings?|aflever|ontvangst)bevestiging|leveringsbevestiging',
    ],
  },
  Swedish: {
    failed: [
      'kunde inte (?:\\S+ ){0,4}?(?:levereras?|skickas?|vidarebefordras?|na fram)',
      '(?:gick|gar) inte att (?:leverera|skicka|overfora)',
      'kan inte (?:levereras|skickas)|inte (?:levererats|levererat)(?! an)|ej (?:levererat|levererats|levererad)',
      'olevererba?r|olevererat|ej leveransbar',
      '(?:leveransen?|sandningen)[^.]{0,80} misslyckad?',
      '(?:leveransfel|fel vid (?:leverans|sandning))',
      'meddelandet? (?:\\S+ )?(?:avvisades|nekades|returnerades|har avvisats)',
    ],
    delayed: [
      'leveransen?[^.]{0,60} (?:forsenad|fordrojd|har forsenats)|forsenad leverans|leveransforsening',
      'annu inte (?:levererats|levererat|kunnat)',
      '(?:fortsatter|kommer att fortsatta)[^.]{0,40}forsok',
    ],
    delivered: [
      'har levererats|levererades|levererats till',
      '^(?:levererat|levererad|vidarebefordrat) ?:',
      'leveranskvitto|leveransbekraftelse',
    ],
  },
  Danish: {
    failed: [
      '(?:kunne|kan) ikke (?:\\S+ ){0,4}?(?:leveres|afleveres|sendes|blive leveret|levere)',
      'ikke (?:leveret|afleveret)|uleverbar|kan ikke leveres',
      'leveringen?[^.]{0,80} (?:mislykkedes|fejlede|er mislykket)|leveringsfejl|fejl ved levering',
      '(?:meddelelsen|mailen|e-?mailen)[^.]{0,20} (?:blev |er )?(?:afvist|returneret)',
    ],
    delayed: [
      'levering[^.]{0,60} forsinket|forsinket levering',
      'endnu ikke (?:\\S+ )?(?:leveret|afleveret)',
      'fortsat forsog|fortsaetter med at',
    ],
    delivered: [
      'er (?:\\S+ )?leveret til|blev leveret til|leveret med succes',
      '^(?:leveret|videresendt) ?:',
      'leveringskvittering',
    ],
  },
  Norwegian: {
    failed: [
      '(?:kunne|kan) ikke (?:\\S+ ){0,4}?(?:leveres|sendes|bli levert|levere)',
      'ikke levert|uleverbar',
      'leveringen?[^.]{0,80} (?:mislyktes|feilet|mislykket)|leveringsfeil|feil ved levering',
      '(?:meldingen|e-?posten)[^.]{0,20} (?:ble |er )?(?:avvist|returnert)',
    ],
    delayed: [
      'levering[^.]{0,60} forsinket|forsinket levering',
      '(?:enna|enda) ikke (?:\\S+ )?levert',
      'fortsetter a prove|vil fortsette',
    ],
    delivered: ['er (?:\\S+ )?levert til|ble levert til', '^(?:levert|videresendt) ?:', 'leveringskvittering'],
  },
  Finnish: {
    failed: [
      '(?:ei|eivat) (?:voitu|voida|voi|onnistuttu|pystytty|pystyta) (?:\\S+ ){0,3}?(?:toimittaa|toimittamaan|lahettaa|valittaa|perille)',
      'ei (?:voi )?toimitettu|toimittamatta|ei toimitettavissa|ei mennyt perille',
      'toimitus[^.]{0,80} epaonnistui|toimitusvirhe|toimittaminen[^.]{0,60} epaonnistui',
      'viesti (?:\\S+ )?(?:hylattiin|palautettiin)',
    ],
    delayed: [
      'toimitus[^.]{0,60} viivasty|viivastynyt',
      'ei ole viela toimitettu|ei viela toimitettu',
      'yrit(?:ysta|tamista)[^.]{0,30}jatk',
    ],
    delivered: ['(?:on toimitettu|toimitettiin) ', '^toimitettu ?:', 'toimitusvahvistus|toimituskuittaus'],
  },
  Polish: {
    failed: [
      'nie (?:mozna|mogla|moze|mogly|moglo|udalo sie|zostala|zostalo|zostaly|zosta[łl][aoy]|uda[łl]o sie|mog[łl][aoy]) (?:\\S+ ){0,3}?(?:dostarcz|dorecz|wys[łl]a)',
      'niedostarcz|niedor[ęe]cz|nie dostarczono|nie doreczono',
      '(?:dostarczenie|doreczenie|dostarczanie|wys[łl]anie)[^.]{0,80} (?:nie powiod[łl]o|niemozliwe|niepowodzen|zosta[łl]o odrzucone)',
      '(?:b[łl]ad|problem)[^.]{0,20} (?:dostarcz|dorecz|podczas (?:dostarcz|dorecz|wysy[łl]))',
      'wiadomosc[^.]{0,40} (?:zosta[łl]a )?(?:odrzucona|zwrocona)',
      'zwrot (?:do )?nadawcy|zwrot wiadomosci',
    ],
    delayed: [
      '(?:dostarcz|dorecz)[^.]{0,60} (?:opozni|wstrzyman|od[łl]ozon)|opozni(?:one|enie)',
      '(?:jeszcze|dotychczas) nie (?:zosta[łl]a|zosta[łl]o|dostarczon)',
      '(?:kolejne|dalsze|ponown)[^.]{0,20} prob',
    ],
    delivered: [
      'zosta[łl][aoy] (?:pomyslnie )?(?:dostarczon|doreczon|przekazan)',
      'pomyslnie (?:dostarczon|doreczon)',
      '^(?:dostarczon[oa]|doreczon[oa]|przekazan[oa]) ?:',
      'potwierdzenie (?:dostarczenia|doreczenia|odbioru)',
    ],
  },
  Czech: {
    failed: [
      'nedorucitel|nedorucen',
      '(?:nelze|nepodarilo|nebylo mozne|nemohla byt|nemohl byt|nebyla|nebyl|nebylo)(?: \\S+){0,5}? (?:doruc|odesl|dodat|predat)',
      'doruceni[^.]{0,80} (?:selhalo|se nezdarilo|se nepodarilo|neni mozne)|chyba (?:pri )?dorucen',
      'zprava (?:\\S+ ){0,3}(?:odmitnuta|vracena|zamitnuta)',
    ],
    delayed: [
      'doruceni[^.]{0,60} (?:zpozd|odloz|opozd)|zpozdeni doruceni|zpozden',
      '(?:dosud|zatim|jeste) (?:nebyl|se nepodarilo)',
      'pokusy? o doruceni[^.]{0,30} (?:pokrac|opak)',
    ],
    delivered: [
      '(?:byla|bylo|byl) (?:uspesne )?dorucen',
      'uspesne (?:dorucen|odeslan)',
      '^(?:doruceno|dorucena|predano) ?:',
      'potvrzeni o doruceni',
    ],
  },
  Slovak: {
    failed: [
      'nedorucitel|nedorucen',
      '(?:nie je mozne|nepodarilo|nebolo mozne|nemohla byt|nebola|nebol)(?: \\S+){0,5}? (?:doruc|odosl)',
      'dorucenie[^.]{0,80} (?:zlyhalo|sa nepodarilo)',
      'sprava (?:\\S+ ){0,3}(?:odmietnuta|vratena|zamietnuta)',
    ],
    delayed: ['dorucenie[^.]{0,60} oneskor|oneskoren', '(?:zatial|este) (?:nebol|sa nepodarilo)'],
    delivered: ['(?:bola|bolo|bol) (?:uspesne )?dorucen', '^dorucen[eéao] ?:'],
  },
  Hungarian: {
    failed: [
      'kezbesithetetlen',
      '(?:nem (?:sikerult|lehet|lehetett|tudtuk|kerult|tudta))(?: \\S+){0,5}? (?:kezbesit|elkuld|tovabbit)',
      '(?:kezbesit\\S*|tovabbit\\S*|elkuld\\S*)(?: \\S+){0,5}? (?:nem (?:sikerult|lehet|lehetett|tudtuk)|sikertelen|meghiusult)',
      'sikertelen (?:kezbesites|tovabbitas|kuldes)|kezbesitesi hiba',
      'uzenet\\S*(?: \\S+){0,4} (?:elutasit|visszautasit|visszakuld)',
    ],
    delayed: [
      'kezbesites[^.]{0,60} kes(?:ik|leltet|edelm)|kesleltetett',
      'meg nem (?:sikerult|kerult|lett)',
      'tovabb(?:i|ra is) (?:probal|kiserlet)',
    ],
    delivered: ['sikeresen (?:kezbesit|tovabbit)', '^kezbesitve ?:', '(?:kezbesitettuk|kezbesitve lett)'],
  },
  Romanian: {
    failed: [
      'nelivrabil|nelivrat|imposibil de livrat',
      'nu (?:a|au|poate|pot|s-a|s-au|a putut|au putut|s-a putut) (?:\\S+ ){0,3}?(?:fi )?(?:livrat|livra|trimis|trimite|expediat|transmis)',
      'livrarea[^.]{0,80} (?:a )?(?:esuat|nu a reusit)|eroare (?:la|de) livrare',
      'mesajul (?:\\S+ ){0,3}(?:respins|returnat|refuzat)',
    ],
    delayed: ['livrare[^.]{0,60} (?:intarzi|amanat)|intarziere', 'inca nu a fost livrat|nu a fost inca livrat'],
    delivered: ['(?<!nu )a fost livrat (?:cu succes|catre|la)|livrat cu succes', '^livrat ?:'],
  },
  Slovene: {
    failed: [
      '(?:ni (?:bilo )?mogoce|ni bilo|ni bila|ne more)(?: \\S+){0,5}? (?:dostav|poslati|dostavljen)',
      'nedostavljiv|dostava[^.]{0,60} ni uspela|napaka pri dostavi',
    ],
    delayed: ['dostava[^.]{0,60} (?:zakasn|odloz)', 'se ni bil[oa] dostavljen'],
    delivered: ['(?<!ni )(?:je bilo|je bila) (?:uspesno )?dostavljen', '^dostavljeno ?:'],
  },
  Croatian: {
    failed: [
      '(?:nije moguce|nije bilo moguce|nije|ne moze se|nije uspjelo|nije uspelo|ne moze)(?: \\S+){0,5}? (?:isporuc|dostav|poslati|urucen)',
      'neisporuc|isporuka[^.]{0,60} (?:nije uspjela|nije uspela|neuspje)|greska (?:pri|u) ispor',
      'poruka (?:\\S+ ){0,3}(?:odbijena|vracena)',
    ],
    delayed: ['isporuka[^.]{0,60} (?:odgod|kasni|zakas)', 'jos (?:uvijek |uvek )?nije isporuc'],
    delivered: ['(?<!nije )je (?:uspjesno |uspesno )?isporucen', '^isporuceno ?:'],
  },
  Estonian: {
    failed: [
      'kohaletoimetamatu|kattetoimetamatu',
      '(?:ei saa|ei saanud|ei onnestunud)(?: \\S+){0,5}? (?:toimetada|edastada|saata)',
      'kohaletoimetamine[^.]{0,60} (?:nurjus|ebaonnestus)',
    ],
    delayed: ['kohaletoimetamine[^.]{0,60} (?:viibi|hiline)'],
    delivered: ['on (?:edukalt )?kohale toimetatud', '^kohale toimetatud ?:'],
  },
  Latvian: {
    failed: [
      'nav piegadajam|nepiegad|(?:nevar|nevareja|neizdevas)(?: \\S+){0,5}? (?:piegadat|nosutit)',
      'piegade[^.]{0,60} neizdevas',
    ],
    delayed: ['piegade[^.]{0,60} (?:aizkav|kavej)'],
    delivered: ['(?:ir|tika) (?:sekmigi )?piegadat', '^piegadat[as] ?:'],
  },
  Lithuanian: {
    failed: [
      'nepristaty|(?:nepavyko|negalima|nebuvo|negali buti)(?: \\S+){0,5}? (?:pristaty|issiu)',
      'pristatymas[^.]{0,60} nepavyko',
    ],
    delayed: ['pristatymas[^.]{0,60} (?:atidet|vel|uzdels)'],
    delivered: ['(?<!ne)(?:buvo )?sekmingai pristaty', '^pristatyta ?:'],
  },
  Turkish: {
    failed: [
      'teslim edil(?:emedi|emiyor|emez|medi|emeyen)|ulast[ıi]r[ıi]lamad[ıi]|iletilemedi|iletilemiyor|gonderilemedi|teslim edilmesi mumkun',
      'teslim[^.]{0,60} (?:basar[ıi]s[ıi]z|hata)|teslimat (?:hatas[ıi]|basar[ıi]s[ıi]z)',
      '(?:ileti|mesaj|e-?posta)\\S*(?: \\S+){0,4} (?:reddedildi|geri dondu|iade edildi)',
    ],
    delayed: ['teslim[^.]{0,60} gecik|gecik(?:ti|meli|mesi)', 'henuz teslim edil', 'denemeye devam'],
    delivered: ['basar[ıi]yla (?:teslim|iletil|gonderil|ulast)', '^teslim edildi ?:', 'teslim edildi(?: |\\.|$)'],
  },
  Greek: {
    failed: [
      '(?:δεν|μη) (?:ηταν |ειναι |μπορει |μπορεσε |κατεστη |εχει |υπηρξε )?(?:\\S+ ){0,5}?(?:παραδο|παραδωσ|παραδοθ|αποσταλ|παραδοτε)',
      'αποτυχια (?:\\S+ )?(?:παραδοσ|αποστολ)|η παραδοση[^.]{0,80} απετυχε|αδυνατη η παραδοση|σφαλμα παραδοσης',
    ],
    delayed: ['καθυστερησ|η παραδοση[^.]{0,60} καθυστερ', 'δεν εχει (?:ακομη|ακομα)'],
    delivered: ['παραδοθηκε (?:με επιτυχια|σε|στ)|επιτυχης παραδοση', '^παραδοθηκε ?:'],
  },
  Russian: {
    failed: [
      'недостав(?:лен|им)|не доставлен',
      'не (?:может|могло|могут|могла|удалось|удается|было|был|была|смогл\\S+|получилось|представляется возможным)(?: \\S+){0,6}? (?:достав|отправ|передан|перенаправ)',
      '(?:достав\\S+|отправ\\S+|передач\\S+)(?: \\S+){0,8}? (?:не удал|невозможн|не может|завершилась неудачей|прекращен)',
      'невозможн\\S+(?: \\S+){0,3} (?:достав|отправ)',
      '(?:ошибк\\S+|сбо\\S+|проблем\\S+) (?:при |в )?(?:достав|отправ|пересылк)',
      '(?:письмо|сообщение|почта)(?: \\S+){0,4} (?:отклонен|отвергнут|возвращен|не принят)',
      'возврат (?:письма|почты|сообщения)|возвращен\\S* отправител',
    ],
    delayed: [
      '(?:достав\\S+|отправ\\S+)[^.]{0,60} (?:задерж|отложен|откладыва)|задержк\\S+ (?:в |при )?достав|отложенн\\S+ достав',
      '(?:еще|пока|до сих пор) не (?:было |был |была )?доставлен',
      '(?:попытк\\S+|пробовать)[^.]{0,60} (?:продолж|повтор)|продолж\\S+[^.]{0,30} попыт',
    ],
    delivered: [
      'успешно (?:доставлен|отправлен|передан|перенаправлен)',
      '(?<!не )(?<!не было )(?<!недо)(?:было |был |была )доставлен\\S* (?:в |получат|адресат|по )',
      '^(?:доставлено|доставлен|ретранслировано|передано) ?:',
      'успешн\\S+ достав|уведомление о доставке|подтверждение доставки',
    ],
  },
  Ukrainian: {
    failed: [
      'не доставлен|недоставлен',
      '(?:неможлив\\S*|не (?:може|вдалося|вдаеться|можна|було|був))(?: \\S+){0,6}? (?:достав|надисл|відправ|вiдправ|видправ|відісл)',
      'помилка (?:при |пiд час |пид час )?(?:достав|надсил)',
      '(?:лист|повідомлення|повидомлення)(?: \\S+){0,4} (?:відхилен|видхилен|повернут|повернен)',
    ],
    delayed: [
      'доставк\\S+[^.]{0,60} (?:затрим|відкладен|видкладен)|затримк\\S+ доставк',
      'ще не (?:було |був )?доставлен',
    ],
    delivered: ['успішно доставлен|успишно доставлен', '^доставлено ?:'],
  },
  Bulgarian: {
    failed: [
      'недостав(?:ен|им)|не (?:може|можа|беше|бе|е)(?: \\S+){0,5}? достав',
      'грешка при достав|неуспешн\\S+ достав|доставката[^.]{0,60} (?:неуспешна|не е успешна)',
    ],
    delayed: ['доставка\\S*[^.]{0,60} (?:заб(?:ав|авя)|отложен)|забавен', 'все още не е доставен'],
    delivered: ['успешно доставен', '^доставено ?:'],
  },
  Serbian: {
    failed: [
      '(?:није могуће|ниjе могуће|није могуце|није|не може)(?: \\S+){0,5}? (?:испоруч|достав|послати)',
      'испорука[^.]{0,60} ни(?:је|jе) успела',
    ],
    delayed: ['испорука[^.]{0,60} (?:одлож|кас)'],
    delivered: ['успешно испоручен', '^испоручено ?:'],
  },
  Hebrew: {
    failed: [
      'לא (?:ניתן|הצלחנו|נמסר|נמסרה|היה ניתן)(?: \\S+){0,4}? ?(?:למסו|לשלוח|למסירה|להעביר|הודע|ל)?',
      'לא נמסר|מסיר\\S+[^.]{0,60} נכשל',
    ],
    delayed: ['מסיר\\S*[^.]{0,60} (?:עוכב|מתעכב|עיכוב)|עיכוב במסיר', 'טרם נמסר'],
    delivered: ['נמסר\\S* בהצלחה', '^נמסר[הו]? ?:'],
  },
  Arabic: {
    failed: [
      '(?:تعذر|يتعذر|لم يتم|لا يمكن|لم نتمكن|فشل)(?: \\S+){0,4}? ?(?:تسليم|توصيل|ارسال|إرسال|التسليم|الارسال|الإرسال)',
      'غير قابل للتسليم',
    ],
    delayed: ['تاخر|تاخير|تأخر|تأخير', 'لم يتم (?:تسليم\\S* )?بعد'],
    delivered: ['تم (?:تسليم|توصيل)(?: \\S+){0,4} بنجاح|تم التسليم'],
  },
  Japanese: {
    failed: [
      '(?:配信|送信|配達|配送|送達|転送|お届け)(?:する)?(?:こと)?(?:が|は|も|を)?(?:でき(?:ません|ない|なかった|ず)|されません|不能|に失敗|出来(?:ません|ない|なかった)|できませんでした)',
      '(?:配信|送信|配達|配送|送達)(?:不能|失敗|エラー|不可)',
      '届け(?:られ|ることが(?:でき|出来))?ません|届きませんでした|届かなかった',
      '(?:メール|メッセージ)(?:が|は|を)?(?:拒否|返送|返却|戻)',
      'エラーメール|あて先不明|宛先不明|宛先が見つかりません|受信拒否',
    ],
    delayed: [
      '(?:配信|送信|配達|配送)(?:の|が|は|に)?(?:遅延|遅れ|遅く|保留)',
      '(?:まだ|未だ)(?:配信|送信|配達|配送)',
      '(?:再送|再試行|再配信)(?:を|が|は|し)(?:続|試|行|ます|いた)',
    ],
    delivered: [
      '(?:正常に|無事に?)(?:配信|送信|配達|配送|転送)',
      '(?:配信|配達|配送|送達)(?:が)?(?:され(?:ました|ています)|完了|済み|成功|しました|に成功)',
      '^(?:配信済み|開封済み|中継済み|配信されました)',
    ],
  },
  Chinese: {
    failed: [
      '(?:无法|無法|未能|不能|没有|沒有|未)(?:被)?(?:成功)?(?:地)?(?:投递|投遞|送达|送達|发送|傳送|传送|传递|傳遞|递送|遞送|寄达|寄達|寄送|发出)',
      '(?:投递|投遞|发送|傳送|传送|传递|傳遞|递送|遞送|寄送)(?:\\S{0,4})?(?:失败|失敗|不成功|错误|錯誤)',
      '退信|退回|被退|拒收|被拒绝|被拒絕|拒绝接收|拒絕接收',
    ],
    delayed: [
      '(?:投递|投遞|发送|傳送|传递|傳遞|送达|送達|邮件|郵件)\\S{0,6}(?:延迟|延遲|推迟|延误|暫緩)|延迟(?:投递|发送|通知)',
      '(?:尚未|还未|還未|仍未)(?:投递|投遞|送达|送達|发送|傳送)',
      '(?:将|將|会|會|系统|系統)\\S{0,6}(?:继续|繼續|再次|重新)(?:尝试|嘗試)',
    ],
    delivered: [
      '(?<!未)(?<!未能)(?<!没有)(?:已|成功|已成功|已经)(?:投递|投遞|送达|送達|传递|傳遞|寄达|寄達)',
      '(?:投递|投遞|送达|送達|发送|傳送)成功',
      '^(?:已送达|已送達|已传递|已傳遞|已轉送|已转送)',
    ],
  },
  Korean: {
    failed: [
      '(?:배달|전달|전송|발송|배송|도착)(?:을|를|이|가|은|는)? ?(?:되지|하지|할 수|될 수|하는데|에) ?(?:않|못|없|실패)',
      '(?:배달|전달|전송|발송|배송)(?:이|에|을|을 )? ?(?:실패|불가|오류)',
      '반송|수신 ?거부|거부되었|되돌아',
    ],
    delayed: [
      '(?:배달|전달|전송|발송)(?:이|이 )? ?(?:지연|늦)',
      '아직 (?:배달|전달|전송|발송)',
      '계속(?:해서)? ?(?:시도|전송)|다시 시도(?:할|합니다|됩니다|될)',
    ],
    delivered: ['(?:성공적으로|정상적으로) ?(?:배달|전달|전송|발송)', '(?:배달|전달)(?:되었|됨|완료| 완료)'],
  },
  Vietnamese: {
    failed: [
      '(?:khong the|khong|chua the)(?: \\S+){0,3}? (?:gui|chuyen|phat|giao)',
      '(?:gui|chuyen|phat|giao)[^.]{0,60} (?:khong thanh cong|that bai)',
    ],
    delayed: ['(?:gui|chuyen|phat|giao)[^.]{0,40} (?:bi )?(?:tri hoan|cham)'],
    delivered: ['(?:gui|chuyen|phat|giao)[^.]{0,20} thanh cong'],
  },
  Indonesian: {
    failed: [
      'tidak (?:dapat|bisa|berhasil|ter)(?: ?\\S+){0,3}? ?(?:kirim|sampai|disampaikan|diantar)',
      'gagal (?:di)?(?:kirim|sampaikan|mengirim)|pengiriman[^.]{0,60} gagal',
    ],
    delayed: ['pengiriman[^.]{0,60} (?:tertunda|terlambat|ditunda)', 'belum (?:ter|di)?kirim'],
    delivered: ['(?<!tidak )(?<!belum )berhasil (?:di)?(?:kirim|sampaikan)'],
  },
  Thai: {
    failed: ['ไม่สามารถ(?:ส่ง|จัดส่ง|นำส่ง)', '(?:ส่ง|จัดส่ง|นำส่ง)\\S{0,40}(?:ไม่สำเร็จ|ล้มเหลว)'],
    delayed: ['(?:ส่ง|จัดส่ง|นำส่ง)\\S{0,40}ล่าช้า'],
    delivered: ['(?:ส่ง|จัดส่ง|นำส่ง)\\S{0,20}(?<!ไม่)สำเร็จ'],
  },
};

function union(kind: keyof Phrases): RegExp {
  const phrases = Object.values(PHRASES).flatMap((language) => language[kind]);
  // Folded as the text is, but for what regular expressions mean by upper case.
  const source = phrases.map((phrase) =>
    phrase
      .normalize('NFD')
      .replace(/[\u0300-\u036f]/g, '')
      .normalize('NFC'),
  );
  return new RegExp(source.map((phrase) => `(?:${phrase})`).join('|'), 'm');
}

/** Of folded text. */
export const FAILED = union('failed');
export const DELAYED = union('delayed');
export const DELIVERED = union('delivered');

/** How conditions begin. Spanish sentences begin with `se` otherwise. */
const CONDITION =
  /(?<=^|[.!?:]\s{0,4})(?:(?:if|in case|should (?:you|your|the)|unless|falls|wenn|sofern|sollten?|si|s'(?:il|ils)|au cas où|en caso|en cas|se(?! (?:ha|han|produ|detec|inten|encontr|rechaz|devol|pud|pued|recib|gener|trat|le|te)\w*\s)|nel caso|qualora|caso|als|indien|mocht|om|hvis|dersom|jos|je[śs]li|je[żz]eli|pokud|kdyby|amennyiben|dac[ăa]|если|якщо|ако|εάν|αν|אם|إذا|jika|nếu|eğer)(?=[\s,])|もし|如果|若|만약)(?:[^.!?\n]|[.!?](?!\s|$))*/gimu;

/**
 * The text without its sentences that begin with a condition: they say what may happen to a message, and not what happened to this one.
 * Takes time linear in the text.
 */
export function withoutConditions(text: string): string {
  return joinedLines(text).replace(CONDITION, '');
}

/** A line as long as that goes on in the next one, where it does not end as a sentence or a label does. */
const WRAPPED = 50;

function joinedLines(text: string): string {
  let joined = '';
  let previous = '';
  for (const line of text.split('\n')) {
    const isWrapped = previous.length >= WRAPPED && /[\p{L}\p{N},]$/u.test(previous) && /^[^\s<>*-]/.test(line);
    joined += joined === '' ? line : `${isWrapped ? ' ' : '\n'}${line}`;
    previous = line.trimEnd();
  }
  return joined;
}
