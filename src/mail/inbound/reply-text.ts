/**
 * What somebody has written in a reply: the text above the mail that they quote, without their signature. Found by the marks
 * that mail programs write in front of a quote, in their languages: a line such as `On … wrote:`, `-----Original Message-----`, a block of From,
 * Sent and To, or the quote itself. Where the answer stands below the quote, or within it, the lines that are not quoted. Time is
 * linear in the text.
 */

/** "wrote", as it stands in such a line. */
const WROTE = [
  ...[
    'wrote',
    'schrieb',
    'geschrieben',
    'a écrit',
    'escribió',
    'ha scritto',
    'escreveu',
    'schreef',
    'het volgende geschreven',
  ],
  ...[
    'napisał',
    'napisała',
    'napisał\\(a\\)',
    'skrev',
    'kirjoitti',
    'napsal',
    'napsala',
    'napsal\\(a\\)',
    'napísal',
    'написал',
    'написала',
    'написал\\(а\\)',
    'пишет',
  ],
  ...[
    'написав',
    'написала',
    'пише',
    'yazdı',
    'şunu yazdı',
    'írta',
    'a scris',
    'написа',
    'έγραψε',
    'đã viết',
    'menulis',
    'je napisao',
    'je napisao\\/la',
    'napisao je',
    'je napisal',
    'va escriure',
    'rašė',
    'rakstīja',
    'kirjutas',
    'skrifaði',
  ],
  ...['כתב', 'כתבה', '‫כתב', 'كتب', 'のメール', '書きました', '写道', '寫道', '작성', '님이 작성', 'เขียนว่า', 'ने लिखा'],
];
const WROTE_LINE = new RegExp(`(?:${WROTE.join('|')})[^\\n]{0,200}[:：]$`, 'iu');
/** A time and an address alone, as Gmail has it in some languages. */
const WHEN_AND_WHO = /\d{1,2}[:.]\d{2}[^\n]{0,200}<[^<>\s]{3,300}>\s*[:：]$/;
const HAS_DATE_OR_ADDRESS = /\d|@/;

const ORIGINAL = new RegExp(
  `^[-_=—–*\\s]{2,}(?:${[
    ...[
      'original message',
      'forwarded message',
      'ursprüngliche nachricht',
      'originalnachricht',
      'weitergeleitete nachricht',
      "message d['’]origine",
      'message original',
    ],
    ...[
      'message transféré',
      'mensaje original',
      'mensaje reenviado',
      'messaggio originale',
      'messaggio inoltrato',
      'mensagem original',
      'oorspronkelijk bericht',
      'doorgestuurd bericht',
    ],
    ...[
      'ursprungligt meddelande',
      'originalmeddelande',
      'oprindelig meddelelse',
      'opprinnelig melding',
      'alkuperäinen viesti',
      'wiadomość oryginalna',
      'původní zpráva',
      'исходное сообщение',
      'пересылаемое сообщение',
    ],
    ...[
      'orijinal mesaj',
      'eredeti üzenet',
      'mesaj original',
      'αρχικό μήνυμα',
      'tin nhắn gốc',
      '元のメッセージ',
      '原始邮件',
      '原始郵件',
      '원본 메일',
      'reply message',
      'reply above this line',
    ],
  ].join('|')})[-_=—–*\\s]{2,}$`,
  'iu',
);

const FROM =
  /^\*?(?:From|Von|De|Da|Van|Från|Fra|Lähettäjä|Od|От|Від|Kimden|Feladó|De la|Από|Từ|Dari|差出人|发件人|寄件者|보낸 사람)\s*\*?\s*[:：]/iu;
const OTHER_FIELD =
  /^\*?(?:Sent|Date|To|Subject|Gesendet|Datum|An|Betreff|Envoyé|À|Objet|Enviado|Fecha|Para|Asunto|Inviato|Data|A|Oggetto|Assunto|Verzonden|Aan|Onderwerp|Skickat|Till|Ämne|Sendt|Til|Emne|Lähetetty|Vastaanottaja|Aihe|Wysłano|Do|Temat|Odesláno|Komu|Předmět|Отправлено|Дата|Кому|Тема|Gönderilme|Tarih|Kime|Konu|Elküldve|Címzett|Tárgy|Trimis|Către|Subiect|Στάλθηκε|Προς|Θέμα|送信日時|宛先|件名|发送时间|收件人|主题|보낸 날짜|받는 사람|제목)\s*\*?\s*[:：]/iu;

const SIGNATURE = /^-- ?$|^__$/;
const SENT_FROM =
  /^(?:Sent from|(?:Sent with|Envoyé avec|Enviado co[nm]|Inviato con) (?:.{0,40}Proton ?Mail|Spark\b|Tuta\b)|Get Outlook for|Von meinem|Gesendet (?:von|mit)|Envoyé de(?:puis)?|Enviado desde|Enviado d[oae]|Inviato da|Verzonden (?:vanaf|met)|Skickat från|Sendt fra|Lähetetty|Wysłane z|Wysłano z|Отправлено (?:с|из)|Odesláno z|iPhoneから送信|发自我的|從我的|나의 .{0,20}에서 보냄).{0,80}$/iu;

const LONGEST_LINE = 1_000;
const LINES_OF_MARK = 3;

/** Null when there is no text, or nothing of it is the sender's own. */
export function replyText(text: string | null): string | null {
  if (text === null) return null;
  const lines = text
    .replace(/\r\n?/g, '\n')
    .split('\n')
    .map((line) => line.slice(0, LONGEST_LINE));
  const mark = lines.findIndex((_, index) => isMark(lines, index));
  const above = mark === -1 ? withoutLastQuote(lines) : lines.slice(0, mark);
  const hasOwn = above.some((line) => line.trim() !== '' && !isQuoted(line));
  const own = ended(hasOwn ? above : below(lines, Math.max(mark, 0)));
  const written = own.join('\n').trim();
  return written === '' ? null : written;
}

const isQuoted = (line: string): boolean => /^\s{0,3}>/.test(line);

function isWhoWrote(line: string): boolean {
  if (line.length > LONGEST_LINE || !HAS_DATE_OR_ADDRESS.test(line)) return false;
  return WROTE_LINE.test(line) || WHEN_AND_WHO.test(line);
}

/** Whether the quoted mail, or what introduces it, begins with this line. */
function isMark(lines: readonly string[], index: number): boolean {
  const line = lines[index]!.trim();
  if (line === '' || isQuoted(line)) return false;
  if (ORIGINAL.test(line)) return true;
  if (FROM.test(line))
    return lines.slice(index + 1, index + 5).filter((next) => OTHER_FIELD.test(next.trim())).length >= 2;
  // Programs break the line that says who wrote when.
  let joined = line;
  for (let more = 1; more <= LINES_OF_MARK; more += 1) {
    if (/[:：]$/.test(joined)) return isWhoWrote(joined);
    const next = lines[index + more]?.trim();
    if (!next || isQuoted(next)) return false;
    joined += ` ${next}`;
  }
  return false;
}

/** Without a quote at the end that nothing introduces. */
function withoutLastQuote(lines: readonly string[]): readonly string[] {
  const first = lines.findIndex(isQuoted);
  if (first === -1) return lines;
  return lines.slice(first).every((line) => line.trim() === '' || isQuoted(line)) ? lines.slice(0, first) : lines;
}

/** Where nothing stands above the quote: what is not quoted from the mark on, without the mark itself. */
function below(lines: readonly string[], mark: number): string[] {
  const quote = lines.findIndex((line, index) => index >= mark && isQuoted(line));
  return quote === -1 ? [] : lines.slice(quote).filter((line) => !isQuoted(line));
}

/** Up to the signature. */
function ended(lines: readonly string[]): readonly string[] {
  const signature = lines.findIndex((line, index) => index > 0 && SIGNATURE.test(line));
  const rest = [...(signature === -1 ? lines : lines.slice(0, signature))];
  while (
    rest.length > 0 &&
    (rest.at(-1)!.trim() === '' || /^[_-]{5,}$/.test(rest.at(-1)!.trim()) || SENT_FROM.test(rest.at(-1)!.trim()))
  )
    rest.pop();
  return rest;
}
