/**
 * The table of rules that classify replies of other mail servers. The first matching row gives the category, who can fix the problem, and
 * whether the reply is about the address. Providers use one enhanced code for many meanings, so rows with specific text come first, then
 * enhanced codes, then vague text, then the bare code. The policy in outcome.ts decides whether a refusal is permanent and whether the
 * address is suppressed. Rules match text in lower case and without accents (reply-text.ts). `replies.txt` contains real replies for each
 * row, and outcome.test.ts checks every one of them.
 */
import type { SmtpStage } from '../../net/smtp-types.ts';
import type { Category, Owner } from './outcome-texts.ts';
import {
  anyOf,
  DISABLED_MAILBOX,
  DISABLED_SENDING_ACCOUNT,
  either,
  FULL_MAILBOX,
  type TextPattern,
  TRY_LATER,
  UNKNOWN_MAILBOX,
} from './reply-text.ts';

/** A rule matches a reply if all of its conditions match. */
export interface ReplyRule {
  at?: readonly SmtpStage[];
  codes?: readonly number[];
  /** The first digit of the reply code. */
  class?: 4 | 5;
  /**
   * Enhanced codes without their class, such as `1.1`. `x` is any digit, and `7.` matches all codes that start with it (RFC 3463, RFC 7372,
   * RFC 7505).
   */
  enhanced?: readonly string[];
  text?: TextPattern;
  unless?: TextPattern;
  /** Set if `text` may also match in a link, as names of blocklists do. */
  inLinks?: true;
  category: Category;
  /** Set if it differs from the owner of the category. */
  owner?: Owner;
  /** Set if the address, or its entire domain, accepts no mail. */
  suppress?: 'permanently' | '7 days';
  /**
   * Set if a relay that replies this means its own client, which is Postrider: in any case, or unless the reply mentions the recipient.
   */
  ofRelayClient?: 'always' | 'unless about recipient';
}

/** Matches English phrases for a missing mailbox that reply-text.ts does not build from single words. */
const NO_SUCH_MAILBOX = either(
  /\b(unknown|invalid|no such|non-?existent|bad|bad destination|undeliverable|illegal|un?recogni[sz]ed) (or (illegal|inactive) )?(local[ -]?|virtual |mail ?|destination |e-?mail )?(user|recipients?|mail ?box|account|address|person|e-?mail|alias|local part|id\b|part|@)/,
  /(^|[.:;,] )user ?unknown/,
  /no (such |valid )?(mail-?box|mail box|account|user|recipient|address|one|person|@)( here)? ((by|with) (that|this) name|for|by|at th(at|is)|in (the |our |my )?(name|directory|address|database|user))/,
  /no @ in\b|no (mailbox|mail box|recipient) (found|available)/,
  /(do|does)( not|n't) have (an?|any|such|this|that) (\S+ )?(account|mailbox|user|recipient|address|@)/,
  /not a (valid|registered|known|active)( e-?mail)? (user|recipient|mailbox|gateway user|address|account)/,
  /not an active (user|recipient|mailbox|address|account)|not our (customer|user)|unrout?e?able address/,
  /is not a known user|(wrong|recipient) or no longer valid|(address|recipient) (rejected|denied)[\W\d]*$/,
  /no longer on server|mail ?box (@ )?(is )?unavail?able/,
  /(mailbox|account|user|recipient|address|@) (is |currently )?unavailable|no one with that|no such mail drop/,
  /\binvalid-recipient|badr(cptto|ecipientto)|validrcptto|not listed in|you tried to reach does(n't| not) exist/,
  /invalid final delivery userid/,
  /(cannot|can't|could not|couldn't|unable to|failed to) (find|locate) (the |this |that |a )?(user|mailbox|recipient|account|address)/,
  /no mailbox\W*$|^(sorry,? )?(this|that|the) (?!domain|host|server|message|mail)\w+ (does not|doesn't) exist/,
  /^(\d\.\d+\.\d+ )?(does not|doesn't) exist\W*$/,
);

/**
 * Matches replies in which the server itself is uncertain whether the mailbox is missing or there is another cause, such as a missing
 * permission.
 */
export const UNSURE = either(
  /\b(may|might) (not|be|have)\b/,
  /\b(moglicherweise|eventuell|vielleicht|pravdepodobne|il se peut|peut-etre|quizas?|es posible|probablemente|potrebbe|forse|talvez|e possivel|provavelmente|mogelijk|misschien|prawdopodobnie|byc moze|kanske|muligvis|maske|kanskje|ehka|talan|muhtemelen)\b/,
  /возможно|вероятно|имовірно|можливо|ενδεχ|可能|かもしれ|아마/,
);

const SUSPENDED =
  '(?:disabled|deactivated|inactive|not (?:yet )?(?:active|activated|enabled)|suspended|frozen|terminated|discontinued|closed|locked|blocked|paused|expired|restricted)';
/**
 * Matches text about the account with which the sending host uses the server. `your account` is never the mailbox of the recipient, whatever
 * address the reply names.
 */
const SENDING_ACCOUNT = either(
  new RegExp(
    String.raw`\b(?:your|sending|sender'?s?|smtp|submission|authenticated) (?:(?!(?:to|for|at|of|on|in|from|this|that|the)\b)[\w-]+ ){0,3}account\b.{0,80}\b${SUSPENDED}\b`,
  ),
  new RegExp(
    String.raw`\b${SUSPENDED} (?:\w+ ){0,2}(?:for|from) (?:\w+ ){0,2}(?:sending|outgoing|outbound|relay(?:ing)?)\b`,
  ),
  new RegExp(
    String.raw`\b(?:outgoing|outbound)(?: (?:e-?mails?|mails?|messages?))?(?: (?:is|are|was|has been))? ${SUSPENDED}\b`,
  ),
  /\bsending (?:is |was |has been )?(?:paused|suspended|disabled|stopped)\b/,
  /\bcredits? (?:limit )?(?:is |has been |was )?(?:exceeded|exhausted|used up)|\b(?:insufficient|not enough|out of) credits?\b/,
);

/** Matches words for the recipient or its mailbox. An account or a user alone may be that of the relay's client. */
export const MENTIONS_RECIPIENT = either(
  /\b(?:recipient|addressee|mail ?-?box|inbox|alias|address|tried to reach)|postfach|empfa?e?nger|boite|destinat|buzon|casell/,
  /caixa|postvak|postbus|ontvanger|geadresseerde|skrzynk|odbiorc|adresat|brevlad|postlad|mottagar|postkass|modtager|mottaker/,
  /postilaatik|vastaanott|schrank|prijem|postafiok|cimzett|casut|posta kutus|ящик|скриньк|получател|одержувач|отримувач/,
  /γραμματοκιβωτι|παραληπτ|收件|收信|邮箱|郵箱|信箱|宛先|宛て先|受信|メールボックス|수신자|메일함|편지함/,
);

const POLICY_WORDS =
  /\bpolic(y|ies)\b|not authori[sz]ed|access denied|permission|not permitted|refused by|refused to accept|prohibited|administrative|restrict|\bdenied\b/;

/**
 * Matches text about the number of recipients in one transaction. NOT_PER_TRANSACTION excludes limits per hour or day and limits on invalid
 * recipients.
 */
export const TOO_MANY_RECIPIENTS = either(
  /too many (rcpt|recipient|receiver|envelope recipient|destinat)\w*|(too many|maximum|max) (\w+ ){0,3}recipients/,
  /recipients?( \w+){0,3} (limit|count|maximum|number)( \w+){0,3} (exceed|reach)\w*/,
  /(exceed|reach)\w* (\w+ ){0,4}(number of |limit of |limit for |maximum )(rcpt|recipient)\w*/,
  /(limit|number) (of|on|for) (\w+ )?recipients|rcpt (numbers|count|limit)|trop de destinataires/,
  /zu ?viele empfa?e?nger|demasiados destinatarios|troppi destinatari|muitos destinatarios|te veel ontvangers/,
  /zbyt (wielu|duzo) odbiorcow|слишком много получател|收件人(过多|太多|数量)/,
);
export const NOT_PER_TRANSACTION =
  /invalid|unknown|\bbad\b|non-?existent|undeliverable|\b(an|per|each|this|every) (hour|day|minute)|hourly|daily|24 h/;

/**
 * Matches text that quotes the refusal of another server. Such a refusal is about neither the sending host nor the address as this server
 * knows it.
 */
export const SECOND_HAND = /remote server returned|remote host said|unverified address|connect to \S+(\[\S+\])?: /;

/** Matches a refusal because the domain of the sender has no host that could receive a bounce. */
export const SENDER_WITHOUT_HOST = /\b(invalid|no valid) (dns|mx|a\/aaaa)\b.{0,40}\brecords?\b/;

const IP = String.raw`(\d{1,3}(\.\d{1,3}){3}|[\da-f]{1,4}(:[\da-f]{0,4}){3,7})`;
const IP_BLOCKED = new RegExp(
  String.raw`${IP}[^a-z]{0,4}( (has been|is|was|are))?( (temporarily|currently|on|in|a|an|our|the|internal|local))* (block|black|deny|denied|ban|reject|refus|list|abus)|(mail|mails|messages?|connections?|traffic|access) from (ip )?\W?${IP}\W{0,3}( (is|was|are|has been|have been|will be|were))?( not)? ?(refus|reject|block|denied|accepted|allowed|deferred|permanently)|${IP}\W? (has sent|is not allowed|is sending)`,
);

export const replyRules: readonly ReplyRule[] = [
  // These phrases are unambiguous, whatever else the reply contains.
  {
    text: either(
      /gr[ea]y[- ]?list|postgrey|greyd|internal resources are temporarily unavailable|list[ae]s? gris|liste grise/,
      /lista (grigia|cinza|szara)|szar\w+ list|graue liste|сер\p{L}+ спис|灰名单|灰名單/u,
    ),
    category: 'greylisted',
  },
  {
    text: /smtputf8|internationali[sz]ed (e-?mail )?address|non-ascii (address|recipient|sender)/,
    category: 'smtputf8',
  },
  { enhanced: ['6.7'], category: 'smtputf8' },
  {
    text: either(
      /starttls|tls (is )?(required|needed)|requires? (tls|encryption)|not support (tls|encryption)/,
      /encryption (is )?(required|needed)|over a tls|must be encrypted|use tls\/ssl/,
      /requires (high-strength ciphers|tls)|tls version 1|(failed dane|dane validation)|dnssec-invalid/,
      /certificate-(expired|host-mismatch)/,
    ),
    category: 'tls',
  },

  // These rows are about the number of recipients in one transaction, or about several recipients and not about one address.
  { text: TOO_MANY_RECIPIENTS, unless: NOT_PER_TRANSACTION, category: 'rate-limited' },
  {
    text: either(
      /too many (invalid|bad|unknown|non-?existent|undeliverable|wrong|failed|rejected) (recipient|rcpt|user|address|mailbox)/,
      /(invalid|unknown|bad) recipients? (limit|threshold|count)|excessive (userid|user|recipient) unknowns/,
      /(directory|dictionary) harvest|namespace mining/,
    ),
    category: 'policy',
    owner: 'sender',
  },
  {
    text: /no valid recipients|all (of the )?recipients (were |have been )?(rejected|refused|invalid)|no recipients? (were|was|have been) accepted/,
    category: 'refused',
  },

  // The recipient's organization or the recipient's own list refuses the sender or the message, not the sending host.
  {
    text: either(
      /tenant allow/,
      /blocked by (your|the recipient'?s?|their|this|our) (organi[sz]ation|company|domain|administrator|user)/,
      /envelope (blocked|rejected)|header-?based|rejected by recipient\b|blocked senders|user entry|user domain entry/,
      /manual block|doesn't want your mail|recipient preferences|rejected by (the )?recipients?|refused by recipient/,
      /user rules|members[- ]only|not (allowed|permitted) to (send|post) to|restricted to|secumail/,
      /refuses? to (receive|accept)|only accept\w* (mail )?from|mailing list|organi[sz]ation(al)? (policy|settings)/,
      /blocked by the (recipient|user)|(rejected|blocked) by (this |the )?user\b|isn't on the recipient's list/,
      /valid-address-filter|restrictdomainsto|(you are|has been|was) blocked by @|not subscribed to this group/,
      /because the recipient is not accepting|not (on|in) (the|our|my|a) white ?list|tenant has exceeded/,
    ),
    unless: /dmarc|\bspf\b|\bdkim\b|anti-?spoof|\bip not|tenant has exceeded|sender (address )?(rejected|verif)/,
    category: 'policy',
    owner: 'recipient',
  },

  {
    text: /google (groups|グループ)|groups\.google\.com|the group you (tried|are trying)/,
    inLinks: true,
    category: 'policy',
    owner: 'recipient',
  },

  // Phrases about the message size must come before those about full mailboxes.
  {
    text: /(message|mail) (size )?exceeds? (the |a )?(fixed |allowed )?(maximum|limit)|maximum (message|mail) size/,
    category: 'content-rejected',
  },

  // Rows about the mailbox: its rate limit, its quota, and whether it is disabled.
  {
    text: either(
      /receiving mail (too quickly|at a rate)|exceeding receiving limits|per hour message receive limit/,
      /rate that prevents additional messages|recipient has exceeded their limit/,
    ),
    category: 'rate-limited',
  },
  {
    text: anyOf(
      either(
        /over[ -]?quota|over (the |its |disk |their )?(allowed |storage )?quota/,
        /quota (exceeded|usage|violation|is full|full)|exceed\w* (\w+ ){0,6}quota|full (mailbox|inbox)|out of storage/,
        /exceeded storage|storage (limit|allocation|space|full)/,
        /(mailbox|inbox) (size|limit|exceeds|has exceeded|exceeded|would exceed)|not enough (storage |disk )?space/,
        /not have enough (disk |storage )?space|(disk|disc|diskspace) ?quota/,
        /(disk|storage|mail) space (limit|exceeded|quota)|space has been used up/,
        /too (many messages on the server|much mail data)|has no (more )?(storage )?space/,
        /reached (\w+ ){0,3}(quota|storage)/,
      ),
      FULL_MAILBOX,
    ),
    unless:
      /for sending|daily|hourly|(message|sending|submission|smtp relay) quota|throttl|out of memory|too many messages (per|from|in)/,
    category: 'mailbox-full',
  },
  {
    text: anyOf(SENDING_ACCOUNT, DISABLED_SENDING_ACCOUNT),
    category: 'policy',
    owner: 'sender',
    ofRelayClient: 'always',
  },
  {
    text: anyOf(
      either(
        /(account|mail ?box|user|recipient|address|inbox|alias|customer)\b.{0,80}\b(disabled|deactivated|inactive|not active|not activated|suspended|suspend the service|frozen|terminated|discontinued|closed|locked|archived|no longer (active|available|in use|valid|accept\w*)|has been blocked by admin)/,
        /(inactive|disabled|suspended|deactivated|archived|blocked|closed|expired|locked) (e-?mail |mail )?(mailbox|account|user|recipient|address)/,
        /(recipient|this|the) account is ?blocked|due to extended inactivity/,
        /no longer (an employee|employed|with (the|this|our) (company|organi[sz]ation|firm))/,
      ),
      DISABLED_MAILBOX,
    ),
    unless: either(
      /sender|sending|connection|\bsession|authentication|relaying/,
      /service (is |has been )?(disabled|suspended|closed)|(out|in)bounds|journal|backscatter|message (has )?expired/,
      /\bip\b|journaling/,
    ),
    category: 'mailbox-disabled',
    suppress: 'permanently',
    ofRelayClient: 'unless about recipient',
  },

  {
    text: /account or domain may not exist/,
    unless: /sender verif|verification failed for/,
    category: 'mailbox-not-found',
  },

  // Mail loops are a problem between servers, not of the message or the address.
  {
    text: either(
      /too many hops|hop count|exceeded \d+ hops|too many received|routing loop|mail (forwarding )?loop/,
      /forwarding loop|loops? back to|message (is )?looping|looping message|loop (was )?(found|detected|broken)/,
      /forwarding loop count/,
    ),
    category: 'policy',
    owner: 'remote',
  },

  // Rows about the name and the address of the sending host.
  {
    text: either(
      /\bptr\b|reverse[- ]?(dns|hostname|host name|lookup|mapping)|\br-?dns\b|cannot find your (reverse )?host ?name/,
      /ip name lookup failed|may not be mail exchanger/,
      /\b(helo|ehlo)\b.{0,60}(reject|invalid|denied|not |need|should|fully|match|requires|empty)/,
      /(invalid|bad|forged|empty) (helo|ehlo)|helo ?host error|dynamic (ip|address|host|dialup|pool)/,
      /generic (ptr|dns)|unresolvable (relay )?host ?name|no matches to nameserver query|forward dns entry does not/,
      /does not match the ip address of the hostname|unverifi?y?able sending ips?/,
      /(cannot|could not|unable to) resolve your (ip|host|address)/,
    ),
    unless: /\bspf\b|dmarc|dkim/,
    category: 'blocked',
  },
  { text: /\(rly:sn|\bmi:(spb|spf|dma|imf)\b/, category: 'policy', owner: 'sender' },
  // Authentication: first the login of an SMTP client, then SPF, DKIM, and DMARC of the sender.
  {
    text: either(
      /smtp[- ]auth|(authentication|authentification) (is )?(required|requise|turned on|failed|credentials|invalide)/,
      /requires authentication|must (be )?authenticate|mail server requires|password not accepted/,
      /application-specific password|incorrect authentication|failed to authenticate|invalid credentials/,
      /log ?in (with|through|via) your web browser|too many login attempts|not authenticated|don't authenticate/,
      /not been authenticated/,
    ),
    unless: /client host|\bsender\b|\bspf\b|dkim/,
    category: 'policy',
    owner: 'remote',
    ofRelayClient: 'always',
  },
  {
    text: either(
      /dmarc|\bspf\b|\bdkim\b|domainkeys|sender policy framework|unauthenticated/,
      /authentication (information|checks|level|results|fail)|fails? to pass authentication|sender verify/,
      /verification failed for|sender domain must|sender id\b|arc (chain|seal)/,
    ),
    unless: /duplicate header/,
    category: 'policy',
    owner: 'sender',
  },
  { text: /permanently deferred/, category: 'blocked' },
  // Rate limits.
  {
    text: either(
      /too many (\w+ ){0,2}(connections|sessions)|connection (frequency|rate|limit)/,
      /concurrent (smtp )?(connection|session)|(connection|thread|session)s? limit/,
      /exceed\w* (\w+ ){0,4}(connection|session|thread)s?( \w+)? limits?|trop de connexions/,
      /\b(hl:(icc|ifc|mep)|mi:(stc|sfq|cel|ccl|dmc)|rp:(drc|ccl|cel|qrc|rcl|trc|frl))\b/,
    ),
    unless: /blocked ip/,
    category: 'rate-limited',
  },
  {
    class: 4,
    text: either(
      /too (many|quickly|fast|frequent)|\brate\b|throttl|limit(s)? (is )?(exceeded|reached)/,
      /exceed\w* .*\b(limit|quota)|frequency limited|deferred due to|(excessive|unexpected) volume|\btss?\d\d/,
      /\bbusy\b|slow(er| down)|max(imum)? .*(messages?|connections?)|trop de|resources? .*exhausted|thread limit/,
    ),
    unless: /\bhops\b|received headers|\b(mail ?box|user|recipient|account) (is )?busy\b|block for spam/,
    category: 'rate-limited',
  },
  {
    text: /(try again|retry|come back|wait)\w* (in|after)? ?\d+ ?(s\b|sec|min|m\b)|come back (later|in)/,
    category: 'greylisted',
  },

  // Lists of domains and links are about the message; lists of host addresses are about the sending host.
  {
    text: either(
      /surbl|uribl|ivmuri|\bdbl\b|urls? .*(listed|blacklist|blocklist|reputation)/,
      /(listed|blacklisted|blocklisted) urls?|breaches local uribl|links? .*(listed|blocked)/,
      /domain present in the spamhaus/,
    ),
    category: 'content-rejected',
    owner: 'sender',
  },
  {
    text: /reputation of (the|your|a) (sending )?domain|(?<!ip\/)domain reputation/,
    category: 'policy',
    owner: 'sender',
  },
  {
    text: either(
      /((?<!ip )\bsender|e-?mail address|from address|mail ?from domain|having a domain|your (e-?mail )?(domain|address))(?!.*\b(ip|host|server)\b).{0,60}(black|block|deny|spam)[- ]?(list|ed\b|haus)/,
      /sender is (spammer|in my)|domain is listed/,
    ),
    unless: /\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|dnsbl|content|virus/,
    category: 'policy',
    owner: 'sender',
  },
  {
    text: either(
      /spamhaus|spamcop|barracudacentral|barracuda reputation|\bsorbs\b|abuseat|uceprotect|invaluement|ivmsip/,
      /sender ?score|senderbase|mailspike|backscatterer|junkemailfilter|cloudmark|spamrl|manitu|dsbl\.org|dnsbl/,
      /\b[dr]{0,2}bl\b|(?<!non)\brbl\b|rbl\b|multi-blacklist|block(ed)? (using|-|for abuse|for spam|due to ip)/,
      /(black|block|deny)[- ]?(list|listed|listing)|\(bl\)|\(nowl\)|\((con|rly|dyn|rtr):|\b(sc|dy|ou)-00\d|\bipts\d\d/,
      /\bvs\d-ip|\bib504|(ofr|lpn)\w*_(102|103|108|109|510)\b|aup#(?!.*(cxsndr|cxsmtp|cxcnct))|_is_blocked|ipcheck/,
    ),
    inLinks: true,
    unless:
      /content|blocked by (polic|the (recipient|user)|recipient|user)|spam(assassin| content)|spam or virus|suspect\w* spam(?! ip)/,
    category: 'blocked',
  },
  {
    text: either(
      /client (host|address).{0,120}(block|reject|list|denied)|banned send(ing|er)\W*(ip|\d)/,
      /((your|sending|sender|source|connecting|client|originating|remote) ?(mail ?)?(ip|server|host|network|mta)|(the|this) ip|your remotehost|mail server at)\b.{0,100}(block|reject|\blist|\bban|denied|refus|suspicious|not (allowed|authori[sz]ed|accepted|permitted|welcome|configured)|reputation|abus|too many|temporarily|limited|requires? confirmation|not passed|forbidden)/,
      /\b(ip|network) .{0,40}(blocked|bloquee|blacklisted|banned|denied|rejected|suspicious|listed|reputation)/,
      /\b(ips|spam ips?) blocked|\bblocked (ip|for spamming)|adresse ip/,
      /(spams?|mails?|messages?|connections?|unwanted .*|traffic) (will not be accepted |not accepted |originating |sent |coming )?from ((your|the following|this|their) (ip|server|host|network|mail ?server|isp)|servers without|\[?\d{1,3}\.\d{1,3}\.)/,
      /(accepted|allowed|permitted|forbidden) (from|by) (this|your) (ip|host|server|network)/,
      /reputation of the sending ip|(poor|bad|low|ip|ip\/domain) reputation(?! of the sending domain)/,
      /poor (e-?mail )?reputation|reputation (system|service|filter)|none\/bad reputation|permanently deferred/,
      /suspected (spam ip|bounce attacks)|host network,? not allowed|no access from mail server|\bip[=:] ?\d/,
      /you are not allowed to connect|bad (sender )?ip\b|(bad|black) ip\b|open proxy/,
      /(use|through) (the|your) (smtp|mail) server of your (isp|provider)/,
      /use (your|the|its) (isp|provider)('s)?( own)?( outgoing)? (smtp|mail|server|relay)|confirm this mail server/,
      /server requires confirmation|does not accept e?-?mail over ipv6|ip not in whitelist/,
      /(connections?|connection) (is |was |has been )?(refused|rejected|denied)\b|not accepting connections/,
      /spam source|\bip behaviou?r|\b(hl:(rep|ihu|ipb)|dt:rbl)\b/,
      /your access to (submit messages to )?this (e-?mail|mail) system has been rejected|\bgo away\b/,
      /adress\w* (ip|ist) .{0,30}(gesperrt|blockiert)|ip-?adresse .{0,60}(gesperrt|blockiert|abgelehnt)/,
      /(direccion|indirizzo|endereco|adres) ip .{0,60}(bloque|blocc|lista|reject|rechaz|rifiut|zablok)/,
      /ip-?адрес.{0,60}(заблокирован|блокирован|черн)|ip地址.{0,20}(拒绝|屏蔽|黑名单)/,
      IP_BLOCKED,
    ),
    unless: /likely unsolicited|(its|message|mail) content|spam or virus|mismatches|not allowed to send (mail )?from/,
    category: 'blocked',
  },
  // The reply says only "blocked" and does not name what is blocked.
  {
    text: either(
      /^(said: )?(\d{3} )?(e-?mail |your mail |mail |message )?(was |is |has been )?blocked( by)?\W*$/,
      /blocked (- )?see\b|was blocked by\W*$|:blocked\)|refused to talk to me.{0,60}blocked/,
    ),
    category: 'blocked',
  },

  // The content.
  {
    text: either(
      /too (large|big)|(header|line|message) (is )?too long/,
      /(message|header|headers|attachment|mailing|mail|mail file)s? (size|length)/,
      /(total )?size (limit|of (the|your|this) (message|mailing|mail|e-?mail)|exceed)|exceed\w* .*size|maximum .*size/,
      /file too big|headers too large|taille limite|max message size|line limit|larger than|header size/,
      /google's (message|header|limit)|zu gross|trop (volumineux|gros)|demasiado grande|troppo grande|muito grande/,
      /zbyt duz|слишком больш/,
    ),
    category: 'content-rejected',
  },
  {
    text: either(
      /unsolicited|\bspams?\b|spam-|spamming|\bspammy|junk ?mail|\bube\b|\bvirus|malware|malicious|phish|infected/,
      /content (reject|denied|block|filter|polic|violat|presents|filter|examination|or the links)/,
      /(its|mail|message|banned|unacceptable|prohibited|similar|bad|binary|dangerous) content|\bsuspicious\b/,
      /attachment|executable|bulk (e-?mail|mail|advert)|bulk\.advertising|mass mailer|security issue|mime|malformed/,
      /base64 encoding|8-bit data|bare (cr|lf|line ?feed)s?\b|822\.bis|content restrict|dt:spm/,
      /(duplicate|multiple|invalid|missing|header) .*header|header (error|syntax)|headers? (is|are) not|not rfc/,
      /rfc ?(2|5)?[38]22 (section \S+ )?compliant|rfcmessagenoncompliant|message-id|message[- ]filter|mcspam/,
      /anti-?spam|spamassassin|mailmarshal|trustwave|multiple addresses|recurrent pattern/,
      /(mail|message) (rejete|rejected)\W.{0,40}_506|suspected spam|rejected by our content/,
    ),
    unless: /user rules|name (server|service)/,
    category: 'content-rejected',
  },
  // Rate limits that the server reports as permanent.
  {
    text: either(
      /too (quickly|fast|frequent)|too many (messages|e?-?mails|mails|recipients|errors)|again slower|slow(er)? down/,
      /at a rate|throttl|frequency limited/,
      /(daily|hourly|sending|message|connection|relay) (message |smtp relay |sending )?(rate|quota|limit|threshold)/,
      /(submission|sending|daily) quota|rate[- ]?limit|(unusual|excessive) (rate|volume)|unexpected volume/,
      /max (emails|message)|maximum sending rate/,
      /(has |have )?exceed\w* (the )?(permitted|allowed|max)\w* (limit|number|emails|messages)/,
      /exceeded permitted limits|(message|mail) limit (was |has been |is )?(reached|exceeded)|deferred due to/,
      /reached your daily limit|limite? (diario|horario|de envi)\w*|zu viele (mails|nachrichten|verbindungen)/,
      /trop de (messages|mails|connexions)|demasiad[oa]s (mensajes|conexiones|correos)/,
      /tropp[ei] (messaggi|connessioni)|muit[oa]s (mensagens|conexoes)|слишком (много|часто)/,
      /(发送|發送|频率|頻率|连接).{0,8}(过快|超限|限制|过多|过高)/,
    ),
    unless: /too many errors .*command/,
    category: 'rate-limited',
  },

  // The sender.
  {
    text: either(
      /\bsender\b|\bfrom:|from (address|domain|header|@)|mail ?from\b|return[- ]path|envelope[- ](from|sender)/,
      /your (e-?mail )?(domain|address)|purported responsible|emetteur|expediteur|absender|remitente|remetente/,
      /mittente|nadawc|отправител|anti-?spoof|domain .*mismatches|backscatter|batv|null (sender|return)/,
      /address is not verified|senderfilterconfig|third-party dsns|returned mail not accepted|due to unresolvable rfc/,
      /发件人|發件人|寄件者|差出人/,
    ),
    unless: /recipient (address )?(unknown|not found|rejected: (user|undeliver))/,
    category: 'policy',
    owner: 'sender',
  },
  {
    text: either(
      /relay(ing)?( access)?:? (is )?(denied|not|prohibited|refused)/,
      /(unable|not allowed|not configured|isn't allowed|is not permitted) to relay|rcpthosts?|open relay/,
      /insecure mail relay|relay denied|relaying disallowed|no relaying|as a relay|relaying mail to|not a gateway/,
      /(don't|doesn't) handle mail for|credentials for relay/,
    ),
    category: 'policy',
    owner: 'remote',
    ofRelayClient: 'always',
  },

  { enhanced: ['1.7', '1.8'], category: 'policy', owner: 'sender' },
  { text: SENDER_WITHOUT_HOST, category: 'policy', owner: 'sender' },
  // If a reply to MAIL reports an unknown address, it means the address of the sender.
  { at: ['mail'], class: 5, text: UNKNOWN_MAILBOX, category: 'policy', owner: 'sender' },

  // The domain of the recipient.
  { codes: [556], category: 'domain-not-found', suppress: '7 days' },
  { text: /null ?mx|indicated no smtp service/, category: 'domain-not-found', suppress: '7 days' },
  { enhanced: ['4.310'], category: 'domain-not-found' },
  {
    text: either(
      /no such domain|unknown (mail )?domain/,
      /(?<!(?:in|of|at|for|under) (?:the )?)\bdomain\b(?! user)(?: name)?(?: (?!does|is|not|was|has)\S+){0,5} (is |was |could )?(not (be )?(found|reachable|known|local|resolve\w*)|unknown|does(n't| not) exist|not exist|unreachable)/,
      /host unknown|unknown host|host or domain name not found|(host|domain)(\/domain)? does not accept mail/,
      /host does not accept mail|unrouteable mail domain|invalid domain|(recipient )?domain must exist|no mx record/,
      /no mx found|no mx for|mx records? for|no longer hosted|not hosted|\bnxdomain\b|nonexistent ?domain/,
      /nonexistent domain|infodomainnonexistent|find a gateway|non-existent hosts|dns type '?mx'? lookup/,
      /doesn't receive email|find a mail exchanger|find the recipient domain|host not found|dead domain/,
      /reserved by rfc 2606|dns records for the destination|domain (existiert nicht|unbekannt|nicht gefunden)/,
      /(dominio|domaine) (no existe|inexistente|n existe pas|inconnu|inesistente|non esiste|desconocido|sconosciuto|nao existe)/,
      /домен\p{L}* (не существует|не наиден)|域名.{0,6}不存在/u,
    ),
    unless: /try again later/,
    category: 'domain-not-found',
  },

  // Exchange Online sends this for addresses that are missing in its directory, and for domains that it does not host.
  { enhanced: ['4.1'], text: /recipient address rejected/, category: 'mailbox-not-found' },

  {
    text: anyOf(NO_SUCH_MAILBOX, UNKNOWN_MAILBOX),
    unless: either(POLICY_WORDS, UNSURE),
    category: 'mailbox-not-found',
    suppress: 'permanently',
  },

  // Problems of the server itself.
  {
    text: either(
      /insufficient (disk|system)|system storage|no space left|out of memory|temporary .*(error|failure|problem)/,
      /dns (lookup|check) fail|upstream error|(local|internal) (error|problem|server error)|error in processing/,
    ),
    category: 'remote-error',
  },

  // Enhanced codes apply if no text matched.
  { enhanced: ['1.1', '1.3', '1.6', '1.10'], category: 'mailbox-not-found', suppress: 'permanently' },
  { enhanced: ['1.2'], category: 'domain-not-found' },
  { codes: [525], category: 'mailbox-disabled' },
  { enhanced: ['2.1', '7.13', '7.17', '7.18'], category: 'mailbox-disabled' },
  { enhanced: ['2.2'], category: 'mailbox-full' },
  { enhanced: ['2.3', '3.4', '6.'], category: 'content-rejected' },
  { enhanced: ['4.4'], category: 'domain-not-found' },
  { enhanced: ['1.90', '2.12x', '4.5', '5.3', '7.28', '7.500', '7.508', '7.650'], category: 'rate-limited' },
  { enhanced: ['4.6', '4.14'], category: 'policy', owner: 'remote' },
  { enhanced: ['7.10', '7.30'], category: 'tls' },
  { enhanced: ['7.20', '7.23', '7.24', '7.26', '7.27', '7.29'], category: 'policy', owner: 'sender' },
  {
    enhanced: ['7.25', '7.506', '7.510', '7.511', '7.6xx', '7.708', '7.85x', '7.86x', '7.87x', '7.88x', '7.89x'],
    category: 'blocked',
  },

  // A refusal of MAIL that is about neither the sender nor the message is about the sending host.
  { at: ['mail'], class: 5, enhanced: ['7.'], category: 'blocked' },
  { at: ['mail'], class: 5, text: POLICY_WORDS, category: 'blocked' },
  { at: ['mail'], codes: [521, 550, 554], enhanced: ['', '0.0'], category: 'blocked' },

  // Vague text and bare codes come last.
  {
    text: either(
      /temporarily (unavailable|not available|unable)/,
      /service (is )?(currently |temporarily )(unavailable|not available)|currently unable/,
      /connection (was |is )?(dropped|reset|timed out|lost)/,
    ),
    category: 'remote-error',
  },
  { class: 4, text: TRY_LATER, category: 'remote-error' },
  { text: /(mail ?box|account|user|recipient|address) (is |was )?not available/, category: 'mailbox-not-found' },
  { enhanced: ['7.'], category: 'policy', owner: 'remote' },
  { text: POLICY_WORDS, category: 'policy', owner: 'remote' },
  { text: TRY_LATER, category: 'remote-error' },
  { at: ['rcpt'], codes: [552], category: 'mailbox-full' },
  { at: ['data', 'dot'], codes: [552, 554], category: 'content-rejected' },
  { class: 5, category: 'refused' },
  { category: 'remote-error' },
];
