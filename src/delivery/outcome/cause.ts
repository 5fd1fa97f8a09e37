/**
 * Which failures are alike: those of one destination with the same reply, but for what a server puts into it for one mail alone (numbers,
 * queue ids, addresses). The group's name begins with an id that follows from what makes it, and carries what is known of it, so
 * that it can be written to each row of work and be read back without another table. Pure.
 */
import { hash } from 'node:crypto';
import { type Category, explanations, type Owner } from './outcome-words.ts';

/** What is known of a failure, as events show it. */
export interface FailureFacts {
  category: Category;
  owner: Owner;
  smtpCode: number | null;
  enhancedCode: string | null;
  /** The reply that decided, or what happened instead of one. */
  reply: string | null;
}

export interface Cause extends Omit<FailureFacts, 'reply'> {
  id: string;
}

const COMPARED_CHARACTERS = 500;
const ID_CHARACTERS = 20;
const ABSENT = '-';

/** Words that were renamed, as they enter the id: stored rows begin with ids made from these, and a group keeps its id. */
const HASHED_AS: Readonly<Partial<Record<Category | Owner, string>>> = {
  internal: 'our-side',
  service: 'our-side',
  sender: 'sender-domain',
};

/** Numbers, and queue ids: with digits among the letters, or of both cases. */
function isOfOneMail(word: string): boolean {
  return /\d/.test(word) || (word.length >= 8 && /[a-z][A-Z]/.test(word));
}

/** A reply without what differs from mail to mail. */
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

/** The part behind the @, as causes and incidents name a destination. */
export function destinationOf(recipient: string): string {
  return recipient.slice(recipient.lastIndexOf('@') + 1).toLowerCase();
}

export function causeOf(recipient: string, failure: FailureFacts): Cause {
  const { category, owner, smtpCode, enhancedCode, reply } = failure;
  const words = [category, owner].map((word) => HASHED_AS[word] ?? word);
  const parts = [destinationOf(recipient), ...words, smtpCode, enhancedCode, normalizedReply(reply ?? '')];
  return { id: hash('sha256', JSON.stringify(parts)).slice(0, ID_CHARACTERS), category, owner, smtpCode, enhancedCode };
}

/** As it stands in a row of work. */
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

/** What to do about messages that wait for this reason. */
export function adviceWhileDelayed(category: Category): string {
  return explanations[category].advice.temporary;
}
