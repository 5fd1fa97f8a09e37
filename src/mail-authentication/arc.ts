/**
 * Verifies ARC chains (RFC 8617 §5.2): the numbered sets of fields that earlier servers added, each sealed over the sets before it. A chain
 * passes if it is complete, all its seals are authentic, and the last message signature covers the message. Every problem is `fail`.
 *
 * The number of keys of a chain is limited, because anyone can add sets.
 *
 * In two steps: `readArcChain` parses the fields, so that the body can be hashed for the last message signature, and `verifyArcChain` looks
 * up keys and verifies.
 */
import {
  algorithmOf,
  hasSigningName,
  isAuthentic,
  type Signature,
  type SignedMessage,
  signatureOf,
  verifySignature,
} from './dkim.ts';
import { keyName } from './dkim-key.ts';
import { type Field, relaxedField, textOf, withoutSignature } from './fields.ts';
import { listItems, parseTagList, type TagList } from './tag-list.ts';

export interface ArcResult {
  result: 'none' | 'pass' | 'fail';
  /** The problem, or a summary of the last set's results, which anyone can write. */
  reason: string | undefined;
}

interface ArcSet {
  seal: Field;
  sealTags: TagList['tags'];
  messageSignature: Field;
  results: Field;
}

export interface ArcChain {
  /** From the first to the last. */
  sets: ArcSet[];
  /** The signature of the last set. */
  messageSignature: Signature;
}

type Part = 'seal' | 'messageSignature' | 'results';

const PARTS = new Map<string, Part>([
  ['arc-seal', 'seal'],
  ['arc-message-signature', 'messageSignature'],
  ['arc-authentication-results', 'results'],
]);
const MAX_SETS = 50;
/** Distinct keys of a chain. Each is one query. */
const MAX_ARC_KEYS = 10;
const INSTANCE = /^[0-9]{1,2}$/;
/** The instance at the start of authentication results, after comments (§4.1.1). */
const RESULTS_INSTANCE = /^(?:[ \t\r\n]|\([^()\\]*\))*i[ \t\r\n]*=[ \t\r\n]*([0-9]{1,2})(?:[ \t\r\n]|\([^()\\]*\))*;/;
const REQUIRED_IN_SEAL = ['a', 'b', 'cv', 'd', 's'];
const REQUIRED_IN_SIGNATURE = ['a', 'b', 'bh', 'd', 'h', 's'];
const CANONICALIZATIONS = /^(simple|relaxed)(?:\/(simple|relaxed))?$/;

/** Returns the chain, undefined if there is none, or the problem. */
export function readArcChain(fields: readonly Field[]): ArcChain | undefined | string {
  const byInstance = new Map<number, Partial<Record<Part, Field>>>();
  for (const field of fields) {
    const part = PARTS.get(field.name);
    if (part === undefined) continue;
    const instance = instanceOf(field, part);
    if (instance === undefined) return `invalid instance in ${field.name}`;
    const set = byInstance.get(instance) ?? {};
    if (set[part]) return `i=${instance} multiple ${field.name} values`;
    set[part] = field;
    byInstance.set(instance, set);
  }
  const sets: ArcSet[] = [];
  for (let instance = 1; instance <= byInstance.size; instance += 1) {
    const set = readSet(instance, byInstance.get(instance) ?? {});
    if (typeof set === 'string') return set;
    sets.push(set);
  }
  const last = sets.at(-1);
  if (last === undefined) return undefined;
  const messageSignature = readMessageSignature(last.messageSignature);
  if (typeof messageSignature === 'string') return `i=${sets.length} ${messageSignature}`;
  return { sets, messageSignature };
}

function instanceOf(field: Field, part: Part): number | undefined {
  const text =
    part === 'results'
      ? RESULTS_INSTANCE.exec(field.text.slice(field.colon + 1))?.[1]
      : parseTagList(textOf(field)).tags.get('i');
  const instance = INSTANCE.test(text ?? '') ? Number(text) : 0;
  return instance >= 1 && instance <= MAX_SETS ? instance : undefined;
}

function readSet(instance: number, parts: Partial<Record<Part, Field>>): ArcSet | string {
  const { seal, messageSignature, results } = parts;
  if (!seal || !messageSignature || !results) return `i=${instance} is incomplete`;
  const { tags, error } = parseTagList(textOf(seal));
  const missing = REQUIRED_IN_SEAL.find((name) => !tags.has(name));
  const problem = error ?? (missing === undefined ? undefined : `missing ${missing}=`);
  if (problem !== undefined) return `i=${instance} as ${problem}`;
  if (tags.has('t') && !/^[0-9]{1,12}$/.test(tags.get('t')!)) return `i=${instance} as invalid t=`;
  if (!hasSigningName(tags)) return `i=${instance} as invalid d= or s=`;
  // §4.1.3: the fields that a seal covers are fixed.
  if (tags.has('h')) return `i=${instance} unexpected as h`;
  const validation = tags.get('cv')!.toLowerCase();
  if (validation !== (instance === 1 ? 'none' : 'pass')) return `i=${instance} cv=${validation}`;
  if (!isArcAlgorithm(tags) || !isArcAlgorithm(parseTagList(textOf(messageSignature)).tags))
    return `i=${instance} unknown algorithm`;
  return { seal, sealTags: tags, messageSignature, results };
}

/** ARC never had SHA-1. */
function isArcAlgorithm(tags: TagList['tags']): boolean {
  const algorithm = algorithmOf(tags.get('a'));
  return algorithm === 'rsa' || algorithm === 'ed25519';
}

/** Parses a message signature, which has the tags of a DKIM signature without v= and with another meaning of i= (§4.1.2). */
function readMessageSignature(field: Field): Signature | string {
  const { tags, error } = parseTagList(textOf(field));
  const missing = REQUIRED_IN_SIGNATURE.find((name) => !tags.has(name));
  if (error !== undefined || missing !== undefined) return `ams ${error ?? `missing ${missing}=`}`;
  if (!hasSigningName(tags)) return 'ams invalid d= or s=';
  const isValid = (name: string, pattern: RegExp): boolean => pattern.test(tags.get(name) ?? '0');
  if (!isValid('t', /^[0-9]{1,12}$/) || !isValid('x', /^[0-9]{1,12}$/) || !isValid('l', /^[0-9]{1,76}$/))
    return 'ams invalid number';
  const forms = CANONICALIZATIONS.exec(tags.get('c')?.toLowerCase() ?? 'simple');
  const signedFields = listItems(tags.get('h')!);
  if (!forms || signedFields.includes('arc-seal') || !signedFields.includes('from')) return 'invalid ams';
  const type = algorithmOf(tags.get('a')) as 'rsa' | 'ed25519';
  const withoutIdentity = new Map(tags);
  withoutIdentity.delete('i');
  return signatureOf(field, withoutIdentity, {
    type,
    header: forms[1] as Signature['header'],
    body: (forms[2] ?? 'simple') as Signature['body'],
  });
}

export async function verifyArcChain(chain: ArcChain | undefined | string, message: SignedMessage): Promise<ArcResult> {
  if (chain === undefined) return { result: 'none', reason: undefined };
  if (typeof chain === 'string') return { result: 'fail', reason: chain };
  const { sets, messageSignature } = chain;
  const names = sets.map(({ sealTags }) => keyName(sealTags.get('d')!, sealTags.get('s')!));
  const { size } = new Set([...names, keyName(messageSignature.domain, messageSignature.selector)]);
  if (size > MAX_ARC_KEYS)
    return { result: 'fail', reason: `its ARC chain has ${size} keys; the limit for verification is ${MAX_ARC_KEYS}` };
  const sealProblem = (instance: number): Promise<string | undefined> =>
    problemOfSeal(sets.slice(0, instance), message);
  // The last set first: it decides for most forged chains.
  const [lastProblem, { result }] = await Promise.all([
    sealProblem(sets.length),
    verifySignature(messageSignature, message),
  ]);
  if (lastProblem !== undefined) return { result: 'fail', reason: lastProblem };
  if (result !== 'pass') return { result: 'fail', reason: `i=${sets.length} no valid signature` };
  const problems = await Promise.all(sets.slice(1).map((_, index) => sealProblem(index + 1)));
  const problem = problems.findLast((one) => one !== undefined);
  if (problem !== undefined) return { result: 'fail', reason: problem };
  return { result: 'pass', reason: summaryOf(sets.length, sets.at(-1)!.results) };
}

/** Verifies the seal of the last of these sets; it covers all of them (§5.1.1). */
async function problemOfSeal(sets: readonly ArcSet[], { keys }: SignedMessage): Promise<string | undefined> {
  const { seal, sealTags } = sets.at(-1)!;
  const [domain, selector] = [sealTags.get('d')!, sealTags.get('s')!];
  const name = keyName(domain, selector);
  const key = await keys(domain, selector);
  if ('result' in key) return `${key.reason} for ${name}`;
  const type = algorithmOf(sealTags.get('a')) as 'rsa' | 'ed25519';
  if (key.type !== type) return `inappropriate key algorithm for ${name}`;
  const covered = sets.flatMap((set) => [set.results, set.messageSignature, set.seal]).slice(0, -1);
  const data = [...covered, withoutSignature(seal)].map(relaxedField).join('\r\n');
  const signature = Buffer.from(sealTags.get('b')!, 'base64');
  return isAuthentic(key.key, Buffer.from(data, 'latin1'), { type, signature })
    ? undefined
    : `i=${sets.length} seal signature validation failed`;
}

const COMMENT = /\([^()]*\)/g;
const MAX_COMMENT_DEPTH = 8;

/** Summarizes authentication results (RFC 8601 §2.2), such as `i=1 spf=pass dkim=pass dkdomain=example.com dmarc=pass`. */
function summaryOf(instance: number, { text, colon }: Field): string {
  let value = text.slice(colon + 1).replace(/\s+/g, ' ');
  for (let depth = 0; depth < MAX_COMMENT_DEPTH && value.includes('('); depth += 1) value = value.replace(COMMENT, '');
  const results = value.split(';').map((result) => result.trim());
  const shown = (method: string, property: RegExp, label: string): string[] =>
    results.flatMap((result) => {
      const found = new RegExp(`^${method} ?= ?([a-z]+)`, 'i').exec(result)?.[1];
      const domain = property.exec(result)?.[1];
      if (found === undefined) return [];
      return domain === undefined ? [`${method}=${found}`] : [`${method}=${found}`, `${label}=${domain}`];
    });
  return [
    `i=${instance}`,
    ...shown('spf', /(?!)/, ''),
    ...shown('dkim', / header\.i ?= ?@?([^\s;]+)/, 'dkdomain'),
    ...shown('dmarc', / header\.from ?= ?([^\s;]+)/, 'fromdomain'),
  ].join(' ');
}
