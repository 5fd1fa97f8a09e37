/**
 * Marks text from outside in the results of tools. Mail is written by anyone, and an agent must not follow instructions in it. Each text
 * that could be a sentence is wrapped in a tag with a random name, which its author cannot know and so cannot close. Ids, times, addresses,
 * and single words stay bare, so agents can use them as arguments.
 */
import { randomText } from '../base/ids.ts';

/** Fields with text of Postrider itself. */
const OWN = new Set(['advice', 'remedy', 'hint', 'notice', 'next']);
const TOKEN = /^[A-Za-z0-9_.:+-]{0,64}$/;
const ADDRESS = /^[A-Za-z0-9.!#$%&'*+/=?^_{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}$/;

export interface Fenced {
  value: unknown;
  /** The tag around untrusted text; undefined if there is none. */
  tag: string | undefined;
}

/** Returns a copy of a JSON value in which text from outside is marked. */
export function fence(value: unknown): Fenced {
  const tag = `untrusted-${randomText(8)}`;
  let isUsed = false;
  const mark = (text: string): string => {
    if (TOKEN.test(text) || ADDRESS.test(text)) return text;
    isUsed = true;
    return `<${tag}>${text.replaceAll('</untrusted', '< /untrusted')}</${tag}>`;
  };
  const walk = (part: unknown): unknown => {
    if (typeof part === 'string') return mark(part);
    if (Array.isArray(part)) return part.map(walk);
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(
      Object.entries(part).map(([name, member]) => [
        mark(name),
        OWN.has(name) && typeof member === 'string' ? member : walk(member),
      ]),
    );
  };
  const marked = walk(value);
  return { value: marked, tag: isUsed ? tag : undefined };
}
