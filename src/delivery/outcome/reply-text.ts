/**
 * Prepares the text of replies for the rules of reply-rules.ts: `replyTexts` folds accents and removes addresses, so that a rule for `user
 * unknown` also matches `User <ann@example.com> is unknown`. The table below has the terms for a mailbox that is unknown, full or disabled,
 * and for "try again later", in the languages that servers use. Terms are written without accents.
 */
import type { SmtpReply } from '../../mail/smtp-reply.ts';

export interface ReplyTexts {
  /** The text with links, for the names of blocklists in them. */
  whole: string;
  /** The text without links: once with `@` for each address, and once without addresses. One entry if there are none. */
  texts: readonly string[];
}

/**
 * A run of characters that can contain an address. Each run is searched once: a search from each of its letters would take quadratic time.
 */
const WORD = /[^\s<>()[\]{}:;,"'`]+/gu;
const ADDRESS = /^.+@[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*/u;
const LINK = /https?:\/\/\S+|\bwww\.\S+/gi;
/** Placeholder for an address while the text is prepared. */
const MARK = '\u0001';
const MARKS = /[<([{"'`\s]*\u0001[>)\]}"'`\s]*/g;
const LETTERS: Readonly<Record<string, string>> = { ł: 'l', ø: 'o', đ: 'd', ı: 'i', ß: 'ss', æ: 'ae', œ: 'oe' };

/** Converts to lower case and removes accents and quotation marks; `l'adresse` becomes two words. */
function fold(text: string): string {
  return text
    .toLowerCase()
    .normalize('NFD')
    .replace(/[\u0300-\u036f]/g, '')
    .normalize('NFC')
    .replace(/[łøđıßæœ]/g, (letter) => LETTERS[letter]!)
    .replace(/[‘’´]/g, "'")
    .replace(/["“”„«»`]|(?<![\p{L}\p{N}])'|'(?![\p{L}\p{N}])/gu, ' ')
    .replace(/\b([cdjlmnst]|qu|un|dell|nell|all|sull)'(?=\p{L})/gu, '$1 ')
    .replace(/\s+/g, ' ')
    .trim();
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

/** Marks the addresses, and the recipient's local part and domain if they appear alone. */
function marked(text: string, recipient: string | undefined): string {
  const isAddress = (word: string): boolean => word.includes('@') && ADDRESS.test(word);
  const found = text.includes('@')
    ? text.replace(WORD, (word) => (isAddress(word) ? word.replace(ADDRESS, MARK) : word))
    : text;
  const at = recipient?.lastIndexOf('@') ?? -1;
  if (recipient === undefined || at <= 0) return found;
  const local = escaped(recipient.slice(0, at));
  const domain = escaped(recipient.slice(at + 1));
  return found
    .replace(new RegExp(`[<("'\`[]${local}[>)"'\`\\]]`, 'gi'), ` ${MARK} `)
    .replace(new RegExp(`(?<![\\w.@-])${domain}(?![\\w@-]|\\.\\w)`, 'gi'), ' ');
}

/** Reads the text of a reply for the rules. `recipient` is the address that the reply was about, if known. */
export function replyTexts({ text }: Pick<SmtpReply, 'text'>, recipient?: string): ReplyTexts {
  const links = marked(text, recipient);
  const words = links.replace(LINK, ' ');
  const named = fold(words.replace(MARKS, ' @ '));
  const whole = fold(links.replace(MARKS, ' '));
  return { whole, texts: words.includes(MARK) ? [named, fold(words.replace(MARKS, ' '))] : [named] };
}

interface Language {
  /** Names for a mailbox, its address and its owner. */
  mailbox: string;
  unknown: string;
  full: string;
  disabled: string;
  /** Complete phrases without a name of a mailbox. */
  phrases?: { unknown?: string; full?: string };
  later: string;
  /** A mailbox that is unavailable only for a while. */
  temporarily: string;
  /** As `temporarily`, next to a phrase for a disabled mailbox. `Currently unknown` means unknown. */
  currently?: string;
  /** Written without spaces between words. */
  unspaced?: true;
}

const languages: Readonly<Record<string, Language>> = {
  english: {
    mailbox:
      "(?:user|recipient|mail ?-?box|account|address(?:ee)?|alias|inbox|mail(?:folder|dir)|customer|subscriber|login|username|e-?mail|local[- ]?part|identity|person|@)(?:e?s)?(?:'s)?",
    unknown:
      "unknown|un?recogni[sz]ed|(?:not|\\w+n't)(?: be)? (?:found|known|recogni[sz]ed|present|exist(?:ent|ing|s)?|registered|defined|valid)|no longer exists?|(?:is|was|are) invalid|invalid(?:$|[.,;:])|non-?existent|undeliverable|notfound",
    full: '(?:is |are |was )?(?:almost |too )?(?:full|over ?quota|overquota)|(?:is |has |was )?out of (?:storage|space)|has no (?:more )?(?:storage )?space',
    disabled:
      'disabled|deactivated|inactive|not (?:active|activated|enabled)|suspended|frozen|terminated|discontinued|closed|locked|archived|cancell?ed|deleted|retired|no longer (?:active|available|in use|valid|accept\\w*|monitored|used)|has been blocked by admin|suspend the service|expired',
    later:
      '\\b(?:re)?(?:try|send|attempt|deliver)\\w*(?: (?!permanently)[\\w,]+){0,4} (?:later|shortly|soon)\\b|(?:try|retry|come back|again)\\w*(?: \\w+){0,2} (?:in|after)(?: about| another)? ?(?:\\d|an? |one |a few |some )|\\bretry[-_ ]after\\b|\\bcome back later\\b|\\bat (?:this|the) (?:time|moment)\\b|\\btemporarily (?:reject|defer|refus|block|unable|unavailable)\\w*|\\btry later\\b|\\b(?:at )?(?:a|some) later time\\b|\\b(?:please|and|,|-) ?(?:re)?try (?:again )?(?:slower|more slowly)|\\bwait(?: \\w+){0,4} (?:and|before|then) (?:re)?(?:try|send)',
    temporarily: 'temporar\\w*|currently (?:\\w+ )?(?:unavailable|unreachable|not available)',
    currently: 'currently|presently|momentarily|for now|until further notice',
  },
  german: {
    mailbox:
      'empfa?e?nger\\w*|benutzer\\w*|nutzer|postfach\\w*|konto|mailbox|adress(?:e|at)\\w*|(?:e-?)?mail-?adresse|@',
    unknown:
      'unbekannt\\w*|existier\\w* (?:hier )?nicht|nicht (?:bekannt|gefunden|vorhanden|existent|registriert|gue?ltig)|gibt es (?:hier )?nicht|ungue?ltig\\w*|nicht existierend\\w*|keine?n? (?:solche\\w*|gue?ltige\\w*)?',
    full: 'voll|ue?berfue?llt',
    disabled: 'gesperrt|deaktiviert|geschlossen|stillgelegt|geloe?scht|abgeschaltet|gekue?ndigt|inaktiv',
    phrases: {
      full: '(?:speicher\\w*|quota|kontingent|limit)(?: \\w+){0,3} (?:ue?berschritten|erschoe?pft|voll|aufgebraucht)|speichervolumen ue?berschritten|zu ?viele mails auf dem server',
    },
    later:
      'spae?ter (?:erneut|nochmals?|noch einmal|wieder)|versuchen sie es(?: \\w+){0,2} spae?ter|spae?ter versuchen',
    temporarily: 'vorue?bergehend|temporae?r|zeitwei(?:se|lig)|kurzzeitig|bis auf weiteres',
    currently: 'derzeit|zur ?zeit|momentan|augenblicklich|gegenwae?rtig',
  },
  french: {
    mailbox:
      'utilisateurs?|destinataires?|boites?(?: aux lettres| mail| e-?mail| de reception)?|compte|adresses?|messagerie|abonne|@',
    unknown:
      'inconnue?s?|n existe (?:pas|plus)|inexistante?s?|introuvables?|non (?:trouvee?|valide|reconnue?|existante?)|invalides?|n est pas (?:valide|connue?)|n a pas (?:ete|pu etre) trouvee?|erronee?s?|aucune?',
    full: '(?:pleine?s?|saturee?s?)\\b',
    disabled: 'desactivee?|bloquee?|fermee?|suspendue?|archivee?|supprimee?|inacti(?:f|ve)|cloturee?|resiliee?',
    phrases: {
      full: 'quota(?: \\w+){0,2} (?:depasse|atteint)|depasse\\w* (?:le|son|du) quota|espace(?: de stockage)? (?:insuffisant|depasse)',
    },
    later: 'essaye[rz](?: \\w+){0,2} plus tard|reessaye[rz]|ulterieurement|plus tard',
    temporarily: 'temporair\\w*|provisoire\\w*',
    currently: 'actuellement|momentanement|pour (?:le moment|l instant)',
  },
  spanish: {
    mailbox: 'usuarios?|destinatarios?|buzon(?:es)?|cuentas?|direccion(?:es)?|casillas?|correo|@',
    unknown:
      'no existe\\w*|desconocid[oa]s?|inexistentes?|no (?:ha sido |fue |se ha )?encontrad[oa]s?|no se (?:ha )?encontr\\w+|no (?:es )?valid[oa]s?|invalid[oa]s?|no registrad[oa]|ningun|no hay (?:ningun )?',
    full: 'llen[oa]s?|sin espacio',
    disabled:
      'desactivad[oa]|deshabilitad[oa]|inhabilitad[oa]|bloquead[oa]|suspendid[oa]|cerrad[oa]|inactiv[oa]|cancelad[oa]|dad[oa] de baja',
    phrases: {
      unknown: 'no existe (?:dicha persona|ese usuario)',
      full: '(?:cuota|espacio|capacidad)(?: \\w+){0,4} (?:excedid[oa]|superad[oa]|agotad[oa]|insuficiente)|(?:excedid[oa]|superad[oa]|excede|supera)(?: \\w+){0,2} (?:cuota|capacidad)',
    },
    later: '(?:mas tarde|de nuevo en|reintente|vuelva a intentar)',
    temporarily: 'temporal\\w*|provisional\\w*',
    currently: 'actualmente|momentane\\w*|(?:por el|de) momento',
  },
  italian: {
    mailbox:
      'utent[ei]|destinatari[oai]?|destin\\.?|casell[ae](?: di posta| postale| e-?mail)?|indirizz[oi]|mailbox|account|@',
    unknown:
      'sconosciut[oaei]|inesistent[ei]|non (?:esist\\w+|trovat[oa]|valid[oa]|conosciut[oa]|presente|riconosciut[oa])|errat[oa]|nessun[oa]?',
    full: 'pien[oa]|esaurit[oa]',
    disabled: 'disatt+ivat[oa]|disabilitat[oa]|sospes[oa]|bloccat[oa]|chius[oa]|inattiv[oa]|cessat[oa]',
    phrases: {
      full: '(?:quota|spazio)(?: \\w+){0,3} (?:superat[oa]|esaurit[oa]|insufficiente)|superat[oa] (?:la |il )?(?:quota|limite di spazio)',
    },
    later: 'piu tardi|riprova\\w* (?:tra|fra)',
    temporarily: 'temporane\\w*|provvisori\\w*',
    currently: 'attualmente|momentanea\\w*|al momento',
  },
  portuguese: {
    mailbox:
      'usuarios?|utilizador(?:es)?|destinatari[oa]s?|caixas?(?: postal| de correio| de entrada| de e-?mail)?|contas?|enderecos?|@',
    unknown:
      'nao (?:existe|encontrad[oa]|(?:e|esta) valid[oa]|foi encontrad[oa]|localizad[oa]|cadastrad[oa])|inexistentes?|desconhecid[oa]s?|invalid[oa]s?|nenhum',
    full: 'chei[ao]|lotad[oa]|sem espaco',
    disabled:
      'desativad[oa]|desactivad[oa]|desabilitad[oa]|suspens[oa]|bloquead[oa]|encerrad[oa]|inativ[oa]|cancelad[oa]',
    phrases: {
      full: '(?:quota|cota|espaco)(?: \\w+){0,4} (?:excedid[oa]|ultrapassad[oa]|atingid[oa]|insuficiente|esgotad[oa])|excedeu (?:a |sua )?(?:quota|cota)',
    },
    later: 'mais tarde|tente novamente em',
    temporarily: 'temporari\\w*|provisori\\w*',
    currently: 'atualmente|momentane\\w*|(?:no|de) momento',
  },
  dutch: {
    mailbox: 'gebruikers?|ontvangers?|postvak|postbus|mailbox|(?:e-?mail)?adres|geadresseerde|account|@',
    unknown: 'onbekende?|bestaa[nt] niet|niet (?:gevonden|bekend|bestaande?|geldig)|ongeldige?|geen',
    full: 'vol|overvol',
    disabled: 'gedeactiveerd|geblokkeerd|uitgeschakeld|opgeheven|afgesloten|inactief|gesloten|opgezegd',
    phrases: { full: '(?:quotum|quota|limiet)(?: \\w+){0,2} (?:overschreden|bereikt)' },
    later: 'later opnieuw|opnieuw later|later nog eens|probeer(?: \\w+){0,2} later',
    temporarily: 'tijdelijk\\w*|voorlopig',
    currently: 'momenteel|op dit moment',
  },
  polish: {
    mailbox: 'uzytkownik\\w*|odbiorc\\w*|adresat\\w*|skrzynk\\w*|kont[oa]|adres\\w*|@',
    unknown:
      'nie istniej\\w*|nieznan\\w*|nie (?:zostal\\w* )?znalezion\\w*|nie znaleziono|nieprawidlow\\w*|bledn\\w*|nie ma takie\\w*|brak(?: takie\\w*)?|niepoprawn\\w*|nie jest (?:znan|zarejestrowan)\\w*',
    full: 'peln[ae]|przepelnion\\w*|zapelnion\\w*',
    disabled: 'zablokowan\\w*|wylaczon\\w*|nieaktywn\\w*|zawieszon\\w*|usuniet\\w*|zamknie\\w*',
    phrases: { full: 'przekroczon\\w*(?: \\w+){0,3} (?:pojemnosc\\w*|quot\\w*|przydzial\\w*)|brak miejsca' },
    later: 'pozniej|sprobuj\\w* ponownie za',
    temporarily: 'tymczasow\\w*|chwilow\\w*|czasowo',
    currently: 'obecnie|aktualnie',
  },
  scandinavian: {
    mailbox:
      'anvandar\\w*|mottagar\\w*|brevlad\\w*|postlad\\w*|bruger\\w*|modtager\\w*|postkass\\w*|bruker\\w*|mottaker\\w*|e-?post\\w*|konto\\w*|(?:e-?mail)?adress\\w*|@',
    unknown:
      'finns (?:inte|ej)|existerar (?:inte|ej)|okan[dt]\\w*|hittades (?:inte|ej)|kunde inte hittas|ogiltig\\w*|(?:findes|finnes|eksisterer) ikke|uken[dt]\\w*|ukjen[dt]\\w*|ugyldig\\w*|ble[v]? ikke fun\\w*|ikke fun[dn]et|ingen (?:sadan|slik)|saknas',
    full: 'ful[ld]t?|overfyldt',
    disabled:
      'avstangd?t?|inaktiv\\w*|sparrad?t?|stangd?t?|lukket|deaktiver\\w*|sperret|stengt|nedlag[dt]\\w*|avslutad',
    later: 'senare|senere',
    temporarily: 'tillfallig\\w*|midlertidig\\w*|tills vidare|forelobig',
    currently: 'for narvarande|for tiden|for oyeblikket|(?:for|i) ojeblikket|just nu',
  },
  finnish: {
    mailbox: 'kayttaja\\w*|vastaanottaja\\w*|postilaatik\\w*|tili\\w*|osoite\\w*|@',
    unknown: 'ei ole olemassa|tuntema\\w*|ei loyd\\w*|ei loytyn\\w*|virheelli\\w*',
    full: 'taynna|taysi',
    disabled: 'suljettu|poistettu|lukittu',
    later: 'myohemmin',
    temporarily: 'valiaikai\\w*|tilapai\\w*|toistaiseksi',
    currently: 'talla hetkella|parhaillaan',
  },
  czech: {
    mailbox: 'uzivatel\\w*|prijem\\w*|adresat\\w*|schrank\\w*|ucet|adres\\w*|@',
    unknown: 'neexistuj\\w*|neznam\\w*|nenalezen\\w*|nebyl\\w* nalezen\\w*|neplatn\\w*|nenajden\\w*|neni znam\\w*',
    full: 'plna|preplnen\\w*|zaplnen\\w*',
    disabled: 'zablokovan\\w*|zrusen\\w*|deaktivovan\\w*|pozastaven\\w*|neaktivn\\w*|uzamcen\\w*',
    phrases: { full: 'prekrocen\\w* (?:kvot\\w*|velikost\\w*)|kvota(?: \\w+)? prekrocena' },
    later: 'pozdeji|neskor',
    temporarily: 'docasn\\w*|prechodn\\w*',
    currently: 'momentaln\\w*|aktualne|v soucasnosti',
  },
  hungarian: {
    mailbox: 'felhasznalo\\w*|cimzett\\w*|postafiok\\w*|postalad\\w*|cim|e-?mail ?cim|fiok\\w*|@',
    unknown: 'nem letez\\w*|ismeretlen\\w*|nem talal\\w*|ervenytelen\\w*|nincs ilyen',
    full: 'megtelt|tele|betelt',
    disabled: 'letilt\\w*|felfuggeszt\\w*|zarol\\w*|megszun\\w*|inaktiv\\w*',
    later: 'kesobb',
    temporarily: 'atmeneti\\w*|ideiglenes\\w*',
    currently: 'jelenleg|pillanatnyilag',
  },
  romanian: {
    mailbox: 'utilizator\\w*|destinatar\\w*|casut\\w*|cont(?:ul)?|adres\\w*|@',
    unknown: 'nu exista|necunoscut\\w*|inexistent[ae]?|nu a fost gasit\\w*|invalid[ae]',
    full: 'plin[ae]?',
    disabled: 'dezactivat\\w*|suspendat\\w*|blocat\\w*',
    later: 'mai tarziu',
    temporarily: 'temporar\\w*|provizori\\w*',
    currently: 'momentan|in prezent|deocamdata',
  },
  turkish: {
    mailbox: 'kullanici\\w*|alici\\w*|posta kutus\\w*|hesa[pb]\\w*|adres\\w*|@',
    unknown: 'bulunama\\w*|mevcut degil|bilinmey\\w*|yok|gecersiz|tanimsiz',
    full: 'dolu|dolmus',
    disabled: 'devre disi|askiya alin\\w*|kapatil\\w*|pasif',
    phrases: { full: 'kota\\w*(?: \\w+)? (?:asil\\w*|asim\\w*|dolu)' },
    later: 'daha sonra',
    temporarily: 'gecici\\w*',
    currently: 'su anda|simdilik',
  },
  russian: {
    mailbox:
      'пользовател\\p{L}*|получател\\p{L}*|адресат\\p{L}*|ящик\\p{L}*|учетн\\p{L}* запис\\p{L}*|аккаунт\\p{L}*|адрес\\p{L}*|абонент\\p{L}*|користувач\\p{L}*|одержувач\\p{L}*|отримувач\\p{L}*|скриньк\\p{L}*|потребител\\p{L}*|@',
    unknown:
      'не существу\\p{L}*|не наиден\\p{L}*|неизвест\\p{L}*|не обнаружен\\p{L}*|не зарегистрирован\\p{L}*|отсутству\\p{L}*|недеиствител\\p{L}*|неверн\\p{L}*|нет так\\p{L}*|не існу\\p{L}*|невідом\\p{L}*|не знаиден\\p{L}*|не съществува|непознат\\p{L}*',
    full: 'переполнен\\p{L}*|заполнен\\p{L}*|полон|переповнен\\p{L}*|препълнен\\p{L}*',
    disabled:
      'заблокирован\\p{L}*|отключен\\p{L}*|удален\\p{L}*|неактив\\p{L}*|закрыт\\p{L}*|приостановлен\\p{L}*|не обслуживает\\p{L}*|блокован\\p{L}*',
    phrases: {
      unknown: 'так(?:ого|ои) (?:пользовател|получател|адрес|ящик)\\p{L}* (?:\\p{L}+ ){0,2}нет',
      full: 'превышен\\p{L}* (?:\\p{L}+ ){0,2}(?:квот|размер|объем)\\p{L}*|квот\\p{L}* (?:\\p{L}+ )?превышен\\p{L}*|недостаточно места',
    },
    later: '(?:повтор|попроб|поп[ыи]та|спроб)\\p{L}*(?: \\p{L}+){0,3} (?:позже|позднее|пізніше)|позже|пізніше',
    temporarily: 'временн\\p{L}*|тимчасов\\p{L}*',
    currently: 'в настоящее время|сеичас|наразі|понастоящем',
  },
  greek: {
    mailbox: 'χρηστη\\p{L}*|παραληπτη\\p{L}*|γραμματοκιβωτι\\p{L}*|λογαριασμο\\p{L}*|διευθυνση\\p{L}*|@',
    unknown: 'δεν υπαρχει|αγνωστ\\p{L}*|δεν βρεθηκε|ακυρ\\p{L}*',
    full: 'γεματ\\p{L}*|πληρ\\p{L}*',
    disabled: 'απενεργοποι\\p{L}*|ανενεργ\\p{L}*|κλειδωμεν\\p{L}*',
    later: 'αργοτερα',
    temporarily: 'προσωριν\\p{L}*',
    currently: 'προς το παρον|αυτη τη στιγμη',
  },
  chinese: {
    mailbox: '用户|用戶|使用者|收件人|收信人|邮箱|郵箱|信箱|账号|賬號|帐号|帳號|账户|帐户|地址|@',
    unknown: '不存在|未找到|找不到|无效|無效|没有找到|查无|查無|未知|没有此|沒有此|无此|無此|不是有效',
    full: '已满|已滿|爆满|满了|超过配额|超出配额|容量不足|空间不足|超出限制|空間不足',
    disabled: '停用|禁用|冻结|凍結|关闭|關閉|注销|锁定|鎖定|停權',
    later: '稍后(?:再|重)?试|稍後(?:再|重)?試|请稍后|請稍後',
    temporarily: '暂时|暫時|临时|臨時|暂停|暫停',
    currently: '目前|当前|當前',
    unspaced: true,
  },
  japanese: {
    mailbox: 'ユーザ|宛先|宛て先|アドレス|受信者|受信箱|メールボックス|アカウント|利用者|@',
    unknown: '存在しま|存在しない|見つかりま|不明|リストにありま|無効|登録されていま|使われて',
    full: 'いっぱい|一杯|満杯|容量|空きがあり',
    disabled: '停止|凍結|ロック|解約',
    phrases: { unknown: '見つかりません|リストにありません' },
    later: '後で|しばらく|時間をおいて|後ほど',
    temporarily: '一時',
    unspaced: true,
  },
  korean: {
    mailbox: '사용자|수신자|받는 ?사람|메일함|편지함|계정|주소|@',
    unknown: '존재하지 않|찾을 수 없|없는|없습니다|알 수 없는|잘못된',
    full: '가득|용량 ?초과|꽉',
    disabled: '정지|휴면|비활성|해지',
    later: '나중에|잠시 후',
    temporarily: '일시|임시',
    unspaced: true,
  },
};

/** After these words a sentence is no longer about the mailbox. */
const ELSEWHERE =
  '(?:ip|ips|hosts?|hostname|serv(?:er|eur|idor)\\w*|domain\\w*|domin\\w+|domen\\w*|sender|from|absender\\w*|expediteur|emetteur|remitente|remetente|mittente|afzender|nadawc\\w*|avsandar\\w*|afsender\\w*|odesilatel\\w*|mx|dns|database|policy|relay\\w*|connection|message|but)(?![\\w-])|домен|сервер|отправител';
const YOUR =
  'your|ihre?|euer|votre|su|tu|suo|vostro|tuo|sua|seu|uw|twoje|panstwa|ditt|din|vase|vas|az on|ваш\\p{L}*|您的?|你的?|お客様の|귀하의?';
/** `your account` and `your IP address` are the sender's. */
const NOT_OF_RECIPIENT = `(?<!\\p{L})(?:ip|sender|sender s|from|source|return|${YOUR})`;
const ACCOUNT =
  '\\w*account|\\w*konto\\w*|compte|cuenta|conta|ucet|fiok\\w*|cont(?:ul)?|hesa[pb]\\w*|tili\\w*|аккаунт\\p{L}*|учетн\\p{L}* запис\\p{L}*|λογαριασμο\\p{L}*|账号|賬號|帐号|帳號|账户|帐户|帳戶|アカウント|계정';
/** Up to `most` words within one sentence. */
const words = (most: number): string =>
  `(?:[\\s,:=]+(?!${ELSEWHERE})[^\\s.,:;!?=]+(?:\\.[^\\s.,:;!?=]+)*){0,${most}}?[\\s,:=]*`;

/** Matches the name of a mailbox followed, or directly preceded, by one of these words, in one language. */
function near({ mailbox, unspaced }: Language, phrase: string): string {
  if (unspaced) return `(?:${mailbox}).{0,20}?(?:${phrase})|(?:${phrase}).{0,6}?(?:${mailbox})`;
  const [start, end] = ['(?<![\\p{L}\\d-])', '(?![\\p{L}\\d])'];
  const name = `${start}(?<!${NOT_OF_RECIPIENT} )(?:${mailbox})${end}`;
  return `${name}${words(6)}${start}(?:${phrase})${end}|${start}(?:${phrase})${words(2)}${name}`;
}

/** A regular expression, or several of which only those that a text needs are compiled. */
export interface TextPattern {
  test(text: string): boolean;
}

/** One regular expression for all of them. */
export function either(...patterns: readonly RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join('|'), 'u');
}

export function anyOf(...patterns: readonly TextPattern[]): TextPattern {
  return { test: (text) => patterns.some((pattern) => pattern.test(text)) };
}

/** Compiled when it is first used. */
function lazily(source: string): TextPattern {
  let pattern: RegExp | undefined;
  return {
    test: (text) => {
      pattern ??= new RegExp(source, 'u');
      return pattern.test(text);
    },
  };
}

/**
 * Matches the name of a mailbox next to one of the phrases, in any language, or one of the complete phrases. The expression of a language is
 * used only for text that contains one of its phrases: compiling those of all languages takes 40 ms, which the first reply would wait for.
 */
function nearInAllLanguages(
  partsOf: (language: Language) => { mailbox?: string; phrase: string; complete?: string | undefined },
): TextPattern {
  const patterns = Object.values(languages).map((language) => {
    const { mailbox = language.mailbox, phrase, complete } = partsOf(language);
    const [contains, isNear] = [lazily(phrase), lazily(near({ ...language, mailbox }, phrase))];
    const isComplete = complete === undefined ? undefined : lazily(complete);
    return (text: string): boolean => (contains.test(text) && isNear.test(text)) || isComplete?.test(text) === true;
  });
  return { test: (text) => patterns.some((matches) => matches(text)) };
}

/** The mailbox does not exist. */
export const UNKNOWN_MAILBOX = nearInAllLanguages((one) => ({ phrase: one.unknown, complete: one.phrases?.unknown }));
/** The mailbox has no space left. */
export const FULL_MAILBOX = nearInAllLanguages((one) => ({ phrase: one.full, complete: one.phrases?.full }));
/** The mailbox exists or existed, and is disabled. An address alone is not enough: `<ann@example.com> blocked` can be about a sender. */
export const DISABLED_MAILBOX = nearInAllLanguages((one) => ({
  mailbox: one.mailbox.replace(/\|@/, ''),
  phrase: one.disabled,
}));
/** The account of the sender, which is `your account` to the server, is disabled. */
export const DISABLED_SENDING_ACCOUNT = nearInAllLanguages((one) => ({
  mailbox: `(?:${YOUR})\\s?(?:[\\p{L}-]+ )?(?:${ACCOUNT})`,
  phrase: one.disabled,
}));
function anyWord(words: readonly string[]): RegExp {
  return new RegExp(words.join('|'), 'u');
}

/** The mailbox is unavailable only for a while. */
export const TEMPORARILY = anyWord(Object.values(languages).map(({ temporarily }) => temporarily));
/** The reply is about the present. */
export const CURRENTLY = anyWord(Object.values(languages).flatMap(({ currently }) => currently ?? []));
/** The server asks for a retry. `Check the address and try again` does not match. */
export const TRY_LATER = anyWord(Object.values(languages).map(({ later }) => later));
