/**
 * Phrases of automatic replies and challenges, as programs and people write them, by language. Only phrases at the start of a subject, or
 * phrases that nobody writes by chance.
 */

/** Phrases that programs or people put at the start of the subject. */
const SUBJECTS: Record<string, readonly string[]> = {
  English: [
    'automatic reply',
    'auto[- ]?repl(?:y|ied)',
    'auto[- ]?response',
    'automated (?:reply|response)',
    'autoresponder',
    'out of (?:the )?office',
    'out-of-office',
    '(?:i am|i.m) (?:out of|away from|on (?:vacation|holiday|leave|annual leave))',
    'on vacation',
    'on (?:annual|maternity|paternity|parental|sick) leave',
    'away from (?:my mail|the office|my desk)',
    'vacation (?:reply|message|response|notice)',
    'absence notice',
    'thank you for (?:your (?:e-?mail|message)|contacting)',
    'we (?:have )?received your (?:e-?mail|message|request)',
    'currently away',
    'away until',
    'office closed',
  ],
  German: [
    'automatische (?:antwort|e-?mail-?antwort|rückmeldung)',
    'abwesenheits(?:notiz|meldung|assistent|benachrichtigung|info)',
    'abwesenheit\\b',
    'nicht im (?:büro|haus)',
    'außer haus',
    'ich bin (?:im urlaub|nicht|zur ?zeit nicht)',
    'urlaubs(?:meldung|benachrichtigung|vertretung)',
    'eingangsbestätigung',
  ],
  French: [
    'réponse automatique',
    'reponse automatique',
    'absence du bureau',
    'absen(?:t|te) du bureau',
    'message d.absence',
    'en (?:congé|vacances)',
    'accusé de réception',
  ],
  Spanish: [
    'respuesta autom[áa]tica',
    'fuera de (?:la )?oficina',
    'ausente de la oficina',
    'ausencia temporal',
    'estoy de vacaciones',
    'contestaci[óo]n autom[áa]tica',
  ],
  Italian: [
    'risposta automatica',
    'fuori (?:sede|ufficio)',
    'assente dall.ufficio',
    'messaggio di assenza',
    'in ferie',
  ],
  Portuguese: [
    'resposta autom[áa]tica',
    'fora d[oe] escrit[óo]rio',
    'ausente do escrit[óo]rio',
    'aus[êe]ncia tempor[áa]ria',
    'estou de f[ée]rias',
  ],
  Dutch: [
    'automatisch antwoord',
    'automatische beantwoording',
    'afwezigheids',
    'afwezig\\b',
    'niet aanwezig',
    'met vakantie',
  ],
  Danish: ['automatisk svar', 'autosvar', 'ikke til stede', 'ikke på kontoret', 'ferie-?svar', 'fravær'],
  Swedish: ['automatiskt svar', 'autosvar', 'frånvaro', 'inte på kontoret', 'på semester', 'semesterhälsning'],
  Norwegian: ['automatisk svar', 'fraværsmelding', 'fraværende', 'ikke på kontoret'],
  Finnish: ['automaattinen vastaus', 'poissa toimistosta', 'poissaoloviesti', 'poissaoloilmoitus', 'olen lomalla'],
  Icelandic: ['sjálfvirkt svar', 'ekki við'],
  Polish: [
    'automatyczna odpowied[źz]',
    'odpowied[źz] automatyczna',
    'autoodpowied[źz]',
    'nieobecno[śs][ćc]',
    'poza biurem',
    'jestem na urlopie',
  ],
  Czech: ['automatick[áa] odpov[ěe][ďd]', 'mimo kancel[áa][řr]', 'nepřítomnost', 'nep[řr][íi]tomen'],
  Slovak: ['automatick[áa] odpove[ďd]', 'mimo kancelárie', 'neprítomnos[ťt]'],
  Slovene: ['samodejni odgovor', 'odsotnost', 'sem odsot'],
  Croatian: ['automatski odgovor', 'odsutnost', 'izvan ureda', 'automatski odziv'],
  Hungarian: ['automatikus v[áa]lasz', 'h[áa]zon k[íi]v[üu]l', 'nem vagyok az irodában', 'szabads[áa]gon'],
  Romanian: ['r[ăa]spuns automat', 'absent din birou', 'în concediu', 'plecat din birou'],
  Estonian: ['automaatvastus', 'automaatne vastus', 'kontorist väljas'],
  Latvian: ['automātiskā atbilde', 'prombūtnē', 'ārpus biroja'],
  Lithuanian: ['automatinis atsakymas', 'nėra biure', 'atostogauju'],
  Turkish: [
    'otomatik yan[ıi]t',
    'otomatik cevap',
    'ofis d[ıi][şs][ıi]nda',
    'i[şs] yeri d[ıi][şs][ıi]nda',
    'y[ıi]ll[ıi]k izinde',
  ],
  Greek: ['αυτόματη απάντηση', 'εκτός γραφείου'],
  Russian: [
    'автоматический ответ',
    'автоответ',
    'отсутствие на рабочем месте',
    'нет на работе',
    'в отпуске',
    'вне офиса',
    'меня нет в офисе',
  ],
  Ukrainian: ['автоматична відповідь', 'автовідповідь', 'поза офісом', 'у відпустці', 'відсутність на робочому місці'],
  Bulgarian: ['автоматичен отговор', 'извън офиса'],
  Serbian: ['аутоматски одговор', 'одсуство'],
  Hebrew: ['מענה אוטומטי', 'תשובה אוטומטית', 'תגובה אוטומטית', 'מחוץ למשרד', 'לא במשרד'],
  Arabic: ['رد تلقائي', 'الرد التلقائي', 'خارج المكتب'],
  Persian: ['پاسخ خودکار'],
  Hindi: ['स्वचालित उत्तर', 'स्वतः उत्तर', 'कार्यालय से बाहर'],
  Thai: ['ตอบกลับอัตโนมัติ', 'การตอบกลับอัตโนมัติ', 'ไม่อยู่ที่สำนักงาน'],
  Vietnamese: ['trả lời tự động', 'thư trả lời tự động', 'vắng mặt'],
  Indonesian: ['balasan otomatis', 'jawaban otomatis', 'di luar kantor', 'sedang cuti'],
  Chinese: ['自动(?:回复|答复)', '自動(?:回覆|回復|答覆)', '外出(?:通知|自動)', '不在办公室', '休假中'],
  Japanese: ['自動(?:応答|返信|配信)', '不在(?:通知|の(?:お知らせ|連絡|ご連絡))', '休暇中', '外出中'],
  Korean: ['자동 ?(?:회신|응답|답장)', '부재 ?중', '휴가 ?중', '외근 ?중'],
};

/** Marks that may precede the phrase: those of replies, brackets of systems. */
const BEFORE =
  '^(?:\\s*(?:re|aw|sv|vs|fw|fwd|odp|ynt|rv|回复|答复|答覆)\\s*[:：]|\\s*\\[[^\\]]{1,40}\\])*[\\s*\\[("“«【!]*';

export const AUTOMATIC_SUBJECT = new RegExp(`${BEFORE}(?:${Object.values(SUBJECTS).flat().join('|')})`, 'iu');

/** Phrases in the text by which an automatic reply identifies itself. */
export const AUTOMATIC_TEXT =
  /(?:this is an? (?:automatic|automated|auto)[ -]?(?:generated )?(?:reply|response|message|e-?mail)|automatically generated (?:reply|response)|(?:i am|i.m|i will be) (?:currently )?(?:out of (?:the )?office|away from|on (?:vacation|holiday|annual leave|leave))|ich bin (?:derzeit|zur ?zeit|vom .{1,40}) (?:nicht|abwesend|im urlaub)|je suis (?:actuellement )?(?:absent|en congé)|estoy fuera de la oficina|ik ben (?:momenteel )?(?:afwezig|niet aanwezig)|diese nachricht wurde automatisch)/iu;

/** Mail that waits for a decision of its recipient or a moderator. */
export const HELD_TEXT =
  /held (?:for|until|pending)|(?:is|are|was|has been) (?:being )?(?:held|quarantined)|in (?:the )?quarantine|(?:await|wait|pend)(?:s|ing)? (?:for )?(?:the )?(?:moderat|approv|review)|(?:moderator|recipient)(?:'s)? (?:approval|review)|(?:in|unter) quarantäne|(?:warte\w*|wartet) auf (?:freigabe|moderation)|zurückgehalten|mis en (?:quarantaine|attente)|en quarantaine|attente de (?:modération|validation)|en cuarentena|pendiente de (?:aprobación|moderación)|in quarantena|attesa di (?:approvazione|moderazione)|em quarentena|aguarda(?:ndo)? (?:aprovação|moderação)|w kwarantannie|на (?:карантин|модерац|рассмотрен)|в карантин/iu;

/** Services that hold mail until its sender completes a step. */
export const CHALLENGE =
  /(?:please )?confirm (?:your|this|that you sent) (?:message|e-?mail|mail|that you)|(?:verification|confirmation|authentication) (?:required|requested|needed) (?:for|to deliver|of) (?:your|the) (?:e-?mail|message)|sender (?:verification|address verification|authentication) (?:request|required)|spam ?arrest|boxbe|tmda|mailinblack|mail in black|bitbounce|uol anti-?spam|antispam uol|challenge[- ]response|spamblocker|qurb|to (?:release|deliver) your (?:message|e-?mail),? (?:please )?(?:click|follow|reply)|one[- ]time (?:verification|confirmation) .{0,40}(?:e-?mail|message)|bestätigen sie (?:bitte )?(?:ihre|diese) (?:e-?mail|nachricht|absender)|absender(?:bestätigung|-?verifizierung)|(?:confirmez|authentifiez|valider) (?:votre|vos) (?:message|e-?mail|envoi|mail)|demande d.authentification|confirme (?:su|o seu) (?:mensaje|e-?mail|correo)|(?:prove|confirm|verify) (?:that )?you(?:.re| are) (?:a |not a )?(?:human|real person|robot)/iu;
