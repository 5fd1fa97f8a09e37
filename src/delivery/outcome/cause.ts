/**
 * Groups failures that are alike: failures of one destination with the same reply, ignoring what a server adds for one message (numbers,
 * queue ids, addresses). The name of a group starts with an id derived from these facts, and also carries the category and codes, so that
 * it can be stored in each row of work and read back without another table. Pure.
 */
import { hash } from 'node:crypto';
import { type Category, explanations, type Owner } from './outcome-texts.ts';

/** The facts of a failure, as events show them. */
export interface FailureFacts {
  category: Category;
  owner: Owner;
  smtpCode: number | null;
  enhancedCode: string | null;
  /** The deciding reply, or what happened instead of a reply. */
  reply: string | null;
}

export interface Cause extends Omit<FailureFacts, 'reply'> {
  id: string;
}

const COMPARED_CHARACTERS = 500;
const ID_CHARACTERS = 20;
const ABSENT = '-';

/** Renamed values, as they enter the id: stored rows have ids made from the old names, and a group keeps its id. */
const HASHED_AS: Readonly<Partial<Record<Category | Owner, string>>> = {
  internal: 'our-side',
  service: 'our-side',
  sender: 'sender-domain',
};

/** Whether a word is a number or a queue id: with digits among the letters, or of mixed case. */
function isOfOneMail(word: string): boolean {
  return /\d/.test(word) || (word.length >= 8 && /[a-z][A-Z]/.test(word));
}

/** Returns a reply without the parts that differ between messages. */
export function normalizedReply(reply: string): string {
  return reply
    .slice(0, COMPARED_CHARACTERS)
    .replace(/[^\s<>()[\]"',;]+/g, (word) => (word.includes('@') ? ' @ ' : word))
    .replace(/[\w.+=:-]+/g, (word) => (isOfOneMail(word) ? ' # ' : word))
    .toLowerCase()
    .replace(/[^\p{L}@#]+/gu, ' ')
    .replace(/(?:# )+/g, '# ')
    .trim();
}

/** Returns the part after the @, which names the destination in causes and incidents. */
export function destinationOf(recipient: string): string {
  return recipient.slice(recipient.lastIndexOf('@') + 1).toLowerCase();
}

export function causeOf(recipient: string, failure: FailureFacts): Cause {
  const { category, owner, smtpCode, enhancedCode, reply } = failure;
  const words = [category, owner].map((word) => HASHED_AS[word] ?? word);
  const parts = [destinationOf(recipient), ...words, smtpCode, enhancedCode, normalizedReply(reply ?? '')];
  return { id: hash('sha256', JSON.stringify(parts)).slice(0, ID_CHARACTERS), category, owner, smtpCode, enhancedCode };
}

/** Formats a cause for a row of work. */
export function causeText({ id, category, owner, smtpCode, enhancedCode }: Cause): string {
  return [id, smtpCode ?? ABSENT, enhancedCode ?? ABSENT, category, owner].join(' ');
}

export function readCause(text: string): Cause {
  const [id = '', smtpCode, enhancedCode = ABSENT, category, owner] = text.split(' ');
  return {
    id,
    smtpCode: smtpCode === ABSENT ? null : Number(smtpCode),
    enhancedCode: enhancedCode === ABSENT ? null : enhancedCode,
    category: category as Category,
    owner: owner as Owner,
  };
}

/** Returns what to do about messages that are delayed for this reason. */
export function adviceWhileDelayed(category: Category): string {
  return explanations[category].advice.temporary;
}
