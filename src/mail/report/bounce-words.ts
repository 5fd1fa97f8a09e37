/**
 * The words by which bounces for people are known among other mail: who sends them, and what their subjects and texts say.
 */

/** Senders of bounces; people do not have such addresses. */
const DAEMON =
  /mailer-?(?:daemon|demon)|mail[ ._-]?deliver|deliver[a-z]* (?:sub)?system|mail (?:system|administrator|transport|router)|post[._-]?master|system administrator|\bdaemon\b|bounces?@|returned mail|mdaemon|scanmail|interscan|microsoft exchange|systemadministrator|mmdf|x\.?400|\bndr\b|<>/i;

/** Senders that nobody can answer to: some write bounces, and all write acknowledgements, notices and automatic replies. */
const NO_REPLY = /no-?reply|donotreply/i;

const FAILURE_SUBJECT =
  /undeliver|not delivered|non[- ]?deliver|non remis|deliver(?:y|able|ing)?\W{0,3}(?:has )?(?:fail|notif|status|problem|error|report|delay|unsuccess)|fail(?:ed|ure)?\W{0,3}(?:to |of )?(?:deliver|notice|mail|report)|delivery (?:failure|status|problem|report)|mail(?: system| delivery)? (?:error|fail)|return(?:ed|ing)\W{1,3}(?:mail|message|to sender)|(?:could|can)(?: ?not|n't) (?:be )?(?:deliver|send|sent)|unzustellbar|nicht (?:zugestellt|zustellbar|zustellen)|zustell(?:ung|fehler)|unable to deliver|onbestelbaar|mancato recapito|no se (?:puede|pudo|ha podido) entregar|non consegnat|impossible de (?:remettre|distribuer)|échec de|недоставлен|не доставлен|не может быть доставлен|送信.{0,4}(?:エラー|失敗)|メールエラー|メッセージを配送できません|配信(?:不能|できません)|退信|无法投递|投递失败|반송|エラーメール|bounce|error sending your mail|message you sent|warning: could not send|still being retried|mail status report|notice: mail delivery|delivery failed|rejected mail|kunde inte levereras|ikke leveres|niet (?:be|af)geleverd|teslim edilemedi|nie został[ao] dostarczon|nedoručiteln|kézbesíthetetlen|yahoo! .*delivery|メッセージ.{0,10}配信されませんでした/i;

const FAILURE_TEXT =
  /(?:could|can|was|were)(?: ?not|n't) (?:be )?(?:deliver|sent|reach|process)|(?:un)?able to deliver|undeliver|fail(?:ed|ure)? (?:to deliver|permanently|delivering|recipient|reasons)|delivery (?:to the following|has failed|failed|attempt|error|problem)|did not reach|(?:permanent|fatal|delivery) (?:fatal )?errors?|returned to (?:the )?sender|rejected (?:by|and)|message (?:was |has been )?(?:rejected|undeliver|not delivered|returned)|had delivery (?:errors|problems)|not delivered to|trouble delivering|error delivering|error (?:has )?occurred while|unknown (?:user|address|recipient|local)|user unknown|mailbox (?:is )?full|no such user|invalid (?:user|recipient|address)|addresses had|transcript of session|rejected by a remote|nicht zugestellt|送信できませんでした|送信に失敗|配送できません|配信できません|недоставлен|не может быть (?:доставлен|отправлен)|no mailbox|not (?:yet )?been delivered|(?:is|was|been) delayed|unsent message|failure reasons|ERR-\d/i;

export function senderOf(from: string): 'daemon' | 'no-reply' | 'other' {
  if (from.trim() === '' || DAEMON.test(from)) return 'daemon';
  return NO_REPLY.test(from) ? 'no-reply' : 'other';
}

export function speaksOfFailure(subject: string, text: string): { subject: boolean; text: boolean } {
  return { subject: FAILURE_SUBJECT.test(subject), text: FAILURE_TEXT.test(text) };
}

/** `550 5.1.1`: a number alone may be anything. */
const REPLY = /(?<![\w.-])[45]\d\d[ -]#?[45]\.\d{1,3}\.\d{1,3}(?!\.?\d)/;

/** Whether a text has the reply of a server, with both of its codes. */
export function quotesReply(text: string): boolean {
  return REPLY.test(text);
}

const DELAY_SUBJECT =
  /delay|still being retried|warning: (?:could not send|message)|will be retried|delivery status.*\(delay|retard|verz(?:ö|oe)ger|demorad|waiting/i;
const DELAY_TEXT =
  /(?:has|have) not yet been delivered|will (?:continue|keep|be) (?:to (?:be )?(?:try|retr)|try|retri)|no action is required on your part|delivery attempts will continue|this is a warning message only|has been delayed|you do not need to resend|still trying|message is delayed/i;
const FINAL_TEXT =
  /permanent(?:ly)? (?:fatal |error|fail)|giv(?:en|ing) up|will not (?:be )?(?:retr|try)|not going to try|failed permanently|retry time(?:out)? exceeded/i;

/** Whether a bounce says that the mail still waits. */
export function isDelayNotice(subject: string, text: string): boolean {
  if (FINAL_TEXT.test(text)) return false;
  return DELAY_TEXT.test(text) || (DELAY_SUBJECT.test(subject) && !/fail|undeliver|returned/i.test(subject));
}
