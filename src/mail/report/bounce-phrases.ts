/**
 * Phrases that distinguish delivery notices from other mail: who sends them, and whether they report that a message failed, is delayed, or
 * arrived. Phrases that any mail may contain weigh less than those that only notices have; a sentence that starts with a condition ("If
 * your message cannot be delivered …") is ignored.
 */
import { DELAYED, DELIVERED, FAILED, folded, withoutConditions } from './notice-phrases.ts';

/** Senders of bounces; people do not have such addresses. */
const DAEMON =
  /mailer-?(?:daemon|demon)|mail[ ._-]?deliver|deliver[a-z]* (?:sub)?system|mail (?:system|administrator|transport|router|server)|post[._-]?master|system administrator|\bdaemon\b|bounces?@|returned mail|mdaemon|scanmail|interscan|microsoft ?exchange|systemadministrator|mmdf|x\.?400|\bndr\b|<>|administrat(?:eur|eur du|or del|ore di|or do) syst?[eè]me?|administrador d[eo]l? sistema|amministratore di sistema|systeembeheerder|systemadministrat[öo]r|systemansvarlig|administrator systemu|spr[aá]vce syst[eé]mu|rendszergazda|sistem y[oö]neticisi|j[aä]rjestelm[aä]nvalvoja|системн\w+ администратор|почтов\w+ (?:служба|сервер|система)|システム管理者|メール配信|系统管理员|系統管理員|系统退信|시스템 관리자/iu;

/** Senders that accept no replies: some send bounces, and all send acknowledgements, notices, and automatic replies. */
const NO_REPLY = /no-?reply|donotreply|do-not-reply|ne-?pas-?repondre|nicht-?antworten|no-?responder|non-?rispondere/i;

/** Subjects of notices about a delivery, whatever its result. */
const NOTICE_SUBJECT =
  /undeliver|not delivered|non[- ]?deliver|deliver(?:y|able|ing)?\W{0,3}(?:has )?(?:fail|notif|status|problem|error|report|delay|unsuccess)|fail(?:ed|ure)?\W{0,3}(?:to |of )?(?:deliver|notice|mail|report)|delivery (?:failure|status|problem|report)|mail(?: system| delivery)? (?:error|fail)|return(?:ed|ing)\W{1,3}(?:mail|message|to sender)|(?:could|can)(?: ?not|n't) (?:be )?(?:deliver|send|sent)|zustell(?:ung|fehler)|unable to deliver|échec de|送信.{0,4}(?:エラー|失敗)|メールエラー|退信|반송|エラーメール|bounce|error sending your mail|message you sent|warning: could not send|still being retried|mail status report|notice: mail delivery|delivery failed|rejected mail|yahoo! .*delivery|メッセージ.{0,10}配信されませんでした/i;

/** Phrases about an address or a server, found in bounces and possibly in other mail. */
const FAILURE_TEXT =
  /(?:could|can|was|were)(?: ?not|n't) (?:be )?(?:deliver|sent|reach|process)|(?:un)?able to deliver|undeliver|fail(?:ed|ure)? (?:to deliver|permanently|delivering|recipient|reasons)|delivery (?:to the following|has failed|failed|attempt|error|problem)|did not reach|(?:permanent|fatal|delivery) (?:fatal )?errors?|returned to (?:the )?sender|rejected (?:by|and)|message (?:was |has been )?(?:rejected|undeliver|not delivered|returned)|had delivery (?:errors|problems)|not delivered to|trouble delivering|error delivering|error (?:has )?occurred while|unknown (?:user|address|recipient|local)|user unknown|mailbox (?:is )?full|no such user|invalid (?:user|recipient|address)|addresses had|transcript of session|rejected by a remote|no mailbox|not (?:yet )?been delivered|(?:is|was|been) delayed|unsent message|failure reasons|ERR-\d/i;

/** Classifies the sender, by whether the mail may be a bounce. */
export function senderOf(from: string): 'daemon' | 'no-reply' | 'other' {
  if (from.trim() === '' || DAEMON.test(from)) return 'daemon';
  return NO_REPLY.test(from) ? 'no-reply' : 'other';
}

/** Words that introduce a quoted reply. */
const QUOTING =
  'said|says|returned|responded|answered|replied|with|error|code|reply|response|reason|status|was|is|message|failed|erreur|raison|fehler|grund|motivo|errore|causa|erro|fout|reden|fel|fejl|b[łl][aą]d|ошибка|причина';
/** `550 5.1.1`: a number alone may be anything. After any other word it is part of a sentence. */
const REPLY = new RegExp(
  `(?:^[\\s"'“„«(]{0,12}|[^\\p{Script=Latin}\\p{Script=Cyrillic}\\p{Script=Greek}\\s"'“„«]\\s{0,4}|(?<![\\p{L}\\p{N}])(?:${QUOTING})[\\s"'“„«]{1,4})[45]\\d\\d[ -]#?[45]\\.\\d{1,3}\\.\\d{1,3}(?!\\.?\\d)`,
  'imu',
);

/** A reply without an enhanced code, at the start of a line or after a colon. */
const BARE_REPLY = /(?:^[\s*>-]{0,8}|[:;>]\s{0,3})(?:smtp\s?(?:error)?[:;]?\s?)?[45][0-5]\d[ -]{1,3}[\p{L}<#]/imu;

/** A reply with both codes that is permanent. */
const FINAL_REPLY = /(?<![\w.-])5\d\d[ -]#?5\.\d{1,3}\.\d{1,3}(?!\.?\d)/;

/** What subject and text report about a delivery. */
export interface Notice {
  /** They report that the message was not delivered. */
  failed: { bySubject: boolean; byText: boolean };
  /** They report that it was delivered, relayed, or expanded, and not that it failed. */
  delivered: boolean;
  delayed: boolean;
  /** A server's reply is quoted, with both codes or with any. */
  reply: 'full' | 'bare' | undefined;
  /** The subject is typical of delivery notices. */
  isNoticeSubject: boolean;
  /** The text has phrases about addresses and servers that other mail may have too. */
  hasWeakWords: boolean;
}

/** Number of characters that are searched: a notice states its result at the start. */
const NOTICE_CHARACTERS = 6000;

export function readNotice(subject: string, text: string): Notice {
  const body = withoutConditions(text.slice(0, NOTICE_CHARACTERS));
  const [title, words] = [folded(subject), folded(body)];
  const failed = { bySubject: FAILED.test(title), byText: FAILED.test(words) };
  const reply = REPLY.test(body) ? 'full' : BARE_REPLY.test(body) ? 'bare' : undefined;
  const isWithoutFailure = !failed.bySubject && reply === undefined;
  const arrives = DELIVERED.test(title) || (DELIVERED.test(words) && !failed.byText);
  return {
    failed,
    delivered: isWithoutFailure && arrives,
    delayed: isDelayNotice(subject, text),
    reply,
    isNoticeSubject: NOTICE_SUBJECT.test(subject),
    hasWeakWords: FAILURE_TEXT.test(body),
  };
}

const DELAY_SUBJECT =
  /delay|still being retried|warning: (?:could not send|message)|will be retried|delivery status.*\(delay|retard|verz(?:ö|oe)ger|demorad|waiting/i;
const DELAY_TEXT =
  /(?:has|have) not yet been delivered|will (?:continue|keep|be) (?:to (?:be )?(?:try|retr)|try|retri)|no action is required on your part|delivery attempts will continue|this is a warning message only|has been delayed|you do not need to resend|still trying|message is delayed/i;
const FINAL_TEXT =
  /permanent(?:ly)? (?:fatal |error|fail)|giv(?:en|ing) up|will not (?:be )?(?:retr|try)|not going to try|failed permanently|retry time(?:out)? exceeded/i;

/** Returns whether a bounce reports that the mail is still queued. */
export function isDelayNotice(subject: string, text: string): boolean {
  if (FINAL_TEXT.test(text)) return false;
  const [title, words] = [folded(subject), folded(text.slice(0, NOTICE_CHARACTERS))];
  if (DELAY_TEXT.test(text) || DELAYED.test(title)) return true;
  if (FINAL_REPLY.test(text) || FAILED.test(title)) return false;
  return DELAYED.test(words) || (DELAY_SUBJECT.test(subject) && !/fail|undeliver|returned/i.test(subject));
}
