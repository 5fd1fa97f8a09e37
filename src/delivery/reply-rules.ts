/**
 * What replies of other mail servers mean, as rows: the first that matches says the category, who can fix it, and whether the
 * reply is about the address. Providers use one enhanced code for many things, so the rows with telling words come first, then
 * the enhanced codes, then vague words, then the bare code. Whether it is over, and whether the address is suppressed, is
 * decided by the policy in outcome.ts. `replies.txt` holds real replies for each row; its test runs every one of them.
 */
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { SmtpStage } from '../net/smtp-types.ts';
import type { Category, Owner } from './outcome-words.ts';

export interface ReplyRule {
  /** All that are given must hold. */
  at?: readonly SmtpStage[];
  codes?: readonly number[];
  /** First digit of the code. */
  class?: 4 | 5;
  /** Enhanced codes without their class, such as `1.1`; `7.` stands for all that begin so (RFC 3463, RFC 7372, RFC 7505). */
  enhanced?: readonly string[];
  text?: RegExp;
  unless?: RegExp;
  /** Whether `text` may also stand in a link, as names of block lists do. */
  inLinks?: true;
  category: Category;
  /** Only where it differs from the one of the category. */
  owner?: Owner;
  /** Says that the address, or its whole domain, takes no mail. */
  suppress?: 'for good' | '7 days';
}

/** Words by which a server says that there is no such mailbox. */
const NO_SUCH_MAILBOX =
  /(user|recipients?|mailbox|account|address(ee)?|alias|destinataire|utilisateur)('s)?( (is|was|name|id|tenant|unrecogni[sz]ed))?:? ?(unknown|un?recogni[sz]ed|not ?found|does(n't| not) exist|doesn't exist|not exist|isn't known|not (known|recogni[sz]ed|present)|invalide?|inconnu|non-?existent|undeliverable|could not be found)|(unknown|invalid|invalide|no such|non-?existent|nonexistent|bad|bad destination|undeliverable|illegal) (or (illegal|inactive) )?(local |virtual |mail ?)?(user|recipients?|mailbox|account|address|person|e-?mail|alias|local part|id\b)|no (such )?(mail-?box|account)( here)? (by|with) that name|(does not|doesn't) have an? [\w.]+ account|not a (valid|registered|known) (user|recipient|mailbox|gateway user|address)|not our (customer|user)|unrouteable address|no (one|person) (here )?(by|at) th(at|is)|is not a known user|(wrong|recipient) or no longer valid|no (mailbox|mail box|recipient) (found|available)|(address|recipient) (rejected|denied)\W*$|no existe|nessun utente|existiert nicht|unbekannt|no longer on server|recipient ?not ?found|mailbox unavailable|address unknown|badr(cptto|ecipientto)|validrcptto|not listed in|you tried to reach does(n't| not) exist|address (couldn't|could not) be found|no valid recipients|invalid final delivery userid|見つかりません|リストにありません/i;

const POLICY_WORDS =
  /\bpolic(y|ies)\b|not authori[sz]ed|access denied|permission|not permitted|refused by|refused to accept|prohibited|administrative|restrict|\bdenied\b/i;

export const replyRules: readonly ReplyRule[] = [
  // What is unmistakable whatever else is said.
  { text: /gr[ea]y[- ]?list|postgrey|greyd|internal resources are temporarily unavailable/i, category: 'greylisted' },
  {
    text: /smtputf8|internationali[sz]ed (e-?mail )?address|non-ascii (address|recipient|sender)/i,
    category: 'smtputf8',
  },
  { enhanced: ['6.7'], category: 'smtputf8' },
  {
    text: /starttls|tls (is )?(required|needed)|requires? (tls|encryption)|not support (tls|encryption)|encryption (is )?(required|needed)|over a tls|must be encrypted/i,
    category: 'tls',
  },

  // The mailbox.
  {
    text: /over ?quota|quota (exceeded|usage|violation|is full|full)|exceed\w* (\w+ ){0,6}quota|(mailbox|inbox|mailfolder|maildir|account|user) (is )?(almost )?full|full mailbox|out of storage|exceeded storage|storage (limit|allocation|space)|mailbox (size|limit|exceeds|has exceeded|exceeded|would exceed)|boite .*pleine|not enough (storage )?space|disk ?quota|postfach .*voll|too many messages on the server/i,
    unless: /for sending|daily|hourly|(message|sending) quota|throttl|out of memory/i,
    category: 'mailbox-full',
  },
  { text: /receiving mail (too quickly|at a rate)|exceeding receiving limits/i, category: 'rate-limited' },
  {
    text: /(account|mail ?box|user|recipient|address|inbox|alias|customer|compte|boite)\b.{0,80}\b(disabled|deactivated|inactive|not active|not activated|suspended|suspend the service|frozen|terminated|discontinued|closed|locked|is bloque|archivee?|archived|no longer (active|available|in use|valid|accept\w*)|has been blocked by admin)|(inactive|disabled|suspended|deactivated|archived|blocked|closed|expired|locked) (e-?mail |mail )?(mailbox|account|user|recipient|address)|recipient account is ?blocked/i,
    unless:
      /sender|sending|connection|\bsession|authentication|relaying|service (is |has been )?(disabled|suspended|closed)/i,
    category: 'mailbox-disabled',
    suppress: 'for good',
  },

  { text: /account or domain may not exist/i, category: 'mailbox-not-found' },

  // Our own host: its name and its address.
  {
    text: /\bptr\b|reverse[- ]?(dns|hostname|host name|lookup|mapping)|\br-?dns\b|cannot find your (reverse )?host ?name|ip name lookup failed|may not be mail exchanger|\b(helo|ehlo)\b.{0,60}(reject|invalid|denied|not |need|fully|match)|invalid (helo|ehlo)|dynamic (ip|address|host|dialup)|generic (ptr|dns)/i,
    unless: /\bspf\b|dmarc|dkim/i,
    category: 'blocked',
  },
  // Whether the sender is who he says.
  {
    text: /smtp[- ]auth|authentication (is )?(required|requise|turned on)|requires authentication|must (be )?authenticate|mail server requires/i,
    category: 'policy',
    owner: 'remote',
  },
  {
    text: /dmarc|\bspf\b|\bdkim\b|domainkeys|unauthenticated|authentication (information|checks|level|results)|sender verify|sender domain must|sender id\b|arc (chain|seal)/i,
    unless: /duplicate header/i,
    category: 'policy',
    owner: 'sender-domain',
  },
  // Rates, where the server says itself that it is for now.
  {
    class: 4,
    text: /too (many|quickly|fast|frequent)|\brate\b|throttl|limit(s)? (is )?(exceeded|reached)|exceed\w* .*\b(limit|quota)|frequency limited|deferred due to|(excessive|unexpected) volume|\bTSS?\d\d|\bbusy\b|slow(er| down)|max(imum)? .*(messages?|connections?)|trop de|concurrent|connection limit|resources? .*exhausted|thread limit/i,
    unless: /\bhops\b|received headers|\b(mail ?box|user|recipient|account) (is )?busy\b/i,
    category: 'rate-limited',
  },
  { text: /try again in \d+ (second|minute)|come back later/i, category: 'greylisted' },

  // Lists of domains and links are about the mail; lists of addresses of hosts are about us.
  {
    text: /surbl|uribl|ivmuri|\bdbl\b|urls? .*(listed|blacklist|blocklist|reputation)|(listed|blacklisted|blocklisted) urls?|breaches local uribl|links? .*(listed|blocked)/i,
    category: 'content-rejected',
    owner: 'sender-domain',
  },
  {
    text: /reputation of (the|your|a) (sending )?domain|domain reputation/i,
    category: 'policy',
    owner: 'sender-domain',
  },
  {
    text: /((?<!ip )\bsender|e-?mail address|from address|mail ?from domain|having a domain|your (e-?mail )?(domain|address))(?!.*\b(ip|host|server)\b).{0,60}(black|block|deny|spam)[- ]?(list|ed\b|haus)|sender is (spammer|in my)|domain is listed/i,
    unless: /\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|dnsbl|content|virus/i,
    category: 'policy',
    owner: 'sender-domain',
  },
  {
    text: /spamhaus|spamcop|barracudacentral|barracuda reputation|\bsorbs\b|abuseat|uceprotect|invaluement|ivmsip|sender ?score|senderbase|mailspike|backscatterer|junkemailfilter|cloudmark|dnsbl|\b[dr]{0,2}bl\b|(?<!non)\brbl\b|multi-blacklist|blocked (using|-|for abuse|for spam|due to ip)|(black|block|deny)[- ]?(list|listed|listing)|\(BL\)|\(NOWL\)|\((CON|RLY|DYN):|AUP#(?!.*(CXSNDR|CXSMTP))|_is_blocked/i,
    inLinks: true,
    unless: /content|blocked by (polic|the (recipient|user)|recipient|user)|spam(assassin| content)|spam or virus/i,
    category: 'blocked',
  },
  {
    text: /client host.{0,120}(block|reject|list|denied)|banned send(ing|er)\W*(ip|\d)|((your|sending|sender|source|connecting|client|originating|remote) ?(mail )?(ip|server|host|network|mta)|(the|this) ip|your remotehost)\b.{0,100}(block|reject|\blist|\bban|denied|refus|suspicious|not (allowed|authori[sz]ed|accepted|permitted|welcome|configured)|reputation|abus|too many|temporarily|limited)|\b(ip|network) .{0,40}(blocked|bloquee|blacklisted|banned|denied|rejected|suspicious|listed)|\bblocked (ip|for spamming)|adresse ip|(spams?|mails?|messages?|connections?|unwanted .*) (will not be accepted |not accepted |originating |sent |coming )?from ((your|the following|this|their) (ip|server|host|network|mail ?server|isp)|servers without|\[?\d{1,3}\.\d{1,3}\.)|reputation of the sending ip|(poor|bad|low|ip) reputation(?! of the sending domain)|\d{1,3}(\.\d{1,3}){3}\]? (has sent|is not allowed|is sending)|not (currently )?accepting (mail|connections|messages) from your|permanently deferred|suspected spam ip|host network not allowed|no access from mail server|IP=\d|you are not allowed to connect/i,
    unless: /likely unsolicited|(its|message|mail) content|spam or virus|mismatches/i,
    category: 'blocked',
  },

  // The content.
  {
    text: /too (large|big)|(message|header|headers|attachment)s? (size|length)|size (limit|of (the|your|this) message|exceed)|exceed\w* .*size|maximum .*size|file too big|headers too large|taille limite|max message size|line limit|larger than/i,
    category: 'content-rejected',
  },
  {
    text: /unsolicited|\bspam\b|junk ?mail|\bube\b|\bvirus|malware|malicious|phish|infected|content (reject|denied|block|filter|polic|violat|presents|filter)|(its|mail|message|banned|unacceptable|prohibited|similar|bad) content|suspicious|attachment|executable|bulk (e-?mail|mail|advert)|security issue|mime|malformed|(duplicate|multiple|invalid|missing|header) .*header|header (error|syntax)|header are not|not rfc|rfc ?(2|5)?[38]22 compliant|message-id|message[- ]filter|MCSpam|anti-?spam|spamassassin/i,
    unless: /user rules|name (server|service)/i,
    category: 'content-rejected',
  },
  // Refusals of a rate that the server calls final.
  {
    text: /too (quickly|fast|frequent)|too many (messages|connections|e?-?mails|mails|concurrent|sessions|recipients)|at a rate|throttl|frequency limited|(daily|hourly|sending|message|connection) (message |smtp relay )?(rate|quota|limit)|rate limit|max emails/i,
    category: 'rate-limited',
  },

  // The recipient's own wishes.
  {
    text: /recipient preferences|rejected by (the )?recipients?|refused by recipient|user rules|members[- ]only|not (allowed|permitted) to (send|post) to|restricted to|secumail|refuses? to (receive|accept)|only accept\w* (mail )?from|mailing list|organi[sz]ation(al)? (policy|settings)|blocked by the (recipient|user)/i,
    category: 'policy',
    owner: 'recipient',
  },
  // The sender.
  {
    text: /\bsender\b|\bfrom:|from (address|domain|header)|mail ?from\b|return[- ]path|envelope[- ](from|sender)|your (e-?mail )?(domain|address)|purported responsible|emetteur|anti-?spoof|domain .*mismatches|backscatter|batv|null (sender|return)|address is not verified/i,
    unless: /recipient (address )?(unknown|not found|rejected: (user|undeliver))/i,
    category: 'policy',
    owner: 'sender-domain',
  },
  {
    text: /relay(ing)?( access)?:? (is )?(denied|not|prohibited|refused)|(unable|not allowed|not configured|isn't allowed|is not permitted) to relay|rcpthosts|open relay|insecure mail relay|relay denied/i,
    category: 'policy',
    owner: 'remote',
  },

  { enhanced: ['1.7', '1.8'], category: 'policy', owner: 'sender-domain' },

  // The domain of the recipient.
  { codes: [556], category: 'domain-not-found', suppress: '7 days' },
  { text: /null ?mx|indicated no smtp service/i, category: 'domain-not-found', suppress: '7 days' },
  {
    text: /no such domain|unknown (mail )?domain|domain (name )?(is )?(not (found|reachable|known|local)|unknown|does(n't| not) exist|not exist)|host unknown|unknown host|host or domain name not found|(host|domain)(\/domain)? does not accept mail|unrouteable mail domain|invalid domain|recipient domain must exist|no mx record|no mx found|no longer hosted|not hosted|\bnxdomain\b|find a gateway|non-existent hosts|dns type '?mx'? lookup|doesn't receive email|find a mail exchanger|dns lookup failure|host not found/i,
    category: 'domain-not-found',
  },

  // Exchange Online answers so for addresses that its directory lacks, and for domains it is not set up for.
  { enhanced: ['4.1'], text: /recipient address rejected/i, category: 'mailbox-not-found' },

  { text: NO_SUCH_MAILBOX, unless: POLICY_WORDS, category: 'mailbox-not-found', suppress: 'for good' },

  // Trouble of the server itself.
  {
    text: /insufficient (disk|system)|system storage|out of memory|temporary .*(error|failure|problem)/i,
    class: 4,
    category: 'remote-error',
  },

  // The enhanced codes, where the words said nothing else.
  { enhanced: ['1.1', '1.3', '1.6', '1.10'], category: 'mailbox-not-found', suppress: 'for good' },
  { enhanced: ['1.2'], category: 'domain-not-found' },
  { codes: [525], category: 'mailbox-disabled' },
  { enhanced: ['2.1', '7.13', '7.17', '7.18'], category: 'mailbox-disabled' },
  { enhanced: ['2.2'], category: 'mailbox-full' },
  { enhanced: ['2.3', '3.4', '6.'], category: 'content-rejected' },
  { enhanced: ['4.4'], category: 'domain-not-found' },
  { enhanced: ['4.5', '5.3', '7.28', '7.500', '7.650'], category: 'rate-limited' },
  { enhanced: ['4.6'], category: 'policy', owner: 'remote' },
  { enhanced: ['7.10', '7.30'], category: 'tls' },
  { enhanced: ['7.20', '7.23', '7.26', '7.27', '7.29'], category: 'policy', owner: 'sender-domain' },
  { enhanced: ['7.25'], category: 'blocked' },

  // At MAIL, where no words speak of the sender or the mail, the refusal is one of our own host.
  { at: ['mail'], class: 5, enhanced: ['7.'], category: 'blocked' },
  { at: ['mail'], class: 5, text: POLICY_WORDS, category: 'blocked' },
  { at: ['mail'], codes: [521, 550, 554], enhanced: ['', '0.0'], category: 'blocked' },

  // Words that say little, and the bare codes.
  { class: 4, text: /try (again|reconnecting)/i, category: 'remote-error' },
  { enhanced: ['7.'], category: 'policy', owner: 'remote' },
  { text: POLICY_WORDS, category: 'policy', owner: 'remote' },
  { at: ['rcpt'], codes: [552], category: 'mailbox-full' },
  { at: ['data', 'dot'], codes: [552, 554], category: 'content-rejected' },
  { class: 5, category: 'refused' },
  { category: 'remote-error' },
];

/** What may be an address is looked at once: a search from each of its letters would take quadratic time. */
const WORD = /[^\s<>()[\]:;,"']+/gu;
const ADDRESS = /^.+@[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*/u;
const LINK = /https?:\/\/\S+|\bwww\.\S+/gi;

/** Words about the sender, our host, a list or a policy, and about today only: whatever the code says, it is not the address. */
const NOT_THE_ADDRESS =
  /\bsender\b|from (address|domain)|mail ?from\b|return[- ]path|\b(helo|ehlo|ptr|spf|dkim|dmarc|dnsbl|[dr]bl)\b|client host|your (ip|host|server|domain|network|mail server)|sending (ip|host|server|domain)|reputation|(black|block|deny)[- ]?list|\b(is|are|been) (black|block)?listed\b|\bpolic(y|ies)\b|not authori[sz]ed|access denied|\bspam\b|rcpthosts|relay(ing)?( access)? (denied|not)|temporar|try (again )?later/i;

function withoutAddresses(text: string): string {
  return text.includes('@')
    ? text.replace(WORD, (word) => (word.includes('@') ? word.replace(ADDRESS, '') : word))
    : text;
}

export function matchReply(reply: SmtpReply, stage: SmtpStage): ReplyRule {
  const whole = withoutAddresses(reply.text);
  const text = whole.replace(LINK, '');
  const detail = reply.enhanced?.slice(2) ?? '';
  const matches = (rule: ReplyRule): boolean =>
    (rule.at === undefined || rule.at.includes(stage)) &&
    (rule.codes === undefined || rule.codes.includes(reply.code)) &&
    (rule.class === undefined || rule.class === Math.floor(reply.code / 100)) &&
    (rule.enhanced === undefined ||
      rule.enhanced.some((one) => (one.endsWith('.') ? detail.startsWith(one) : detail === one))) &&
    (rule.text === undefined || rule.text.test(rule.inLinks ? whole : text)) &&
    (rule.unless === undefined || !rule.unless.test(text));
  return replyRules.find(matches)!;
}

/** Whether the words of a reply allow that it speaks of the address; names and links in it do not count as words. */
export function speaksOfAddress(reply: SmtpReply): boolean {
  const text = withoutAddresses(reply.text).replace(LINK, '');
  return !NOT_THE_ADDRESS.test(text) && !(reply.enhanced?.startsWith('5.7.') ?? false);
}
