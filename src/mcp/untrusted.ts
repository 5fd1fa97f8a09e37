/**
 * Marks text from outside in the results of tools. Mail is written by anyone, and an agent must not follow instructions in it. Each text
 * that could be a sentence is wrapped in a tag with a random name, which its author cannot know and so cannot close. Ids, times, addresses,
 * and single words stay bare, so agents can use them as arguments, except where they are the content of mail.
 */
import { randomText } from '../base/ids.ts';

/** Fields with text of Postrider itself, unless they are below a field whose names come from outside. */
const OWN = new Set(['advice', 'remedy', 'hint', 'notice', 'next']);
/** Fields whose members are named by the author of a mail. */
const NAMED_OUTSIDE = new Set(['headers', 'metadata', 'templateVariables']);
/** Fields with content of mail, which is always marked. */
const CONTENT = new Set(['subject', 'text', 'html']);
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
  const wrap = (text: string): string => {
    isUsed = true;
    return `<${tag}>${text.replaceAll('</untrusted', '< /untrusted')}</${tag}>`;
  };
  const mark = (text: string): string => (TOKEN.test(text) || ADDRESS.test(text) ? text : wrap(text));
  const walk = (part: unknown, isNamedOutside: boolean): unknown => {
    if (typeof part === 'string') return mark(part);
    if (Array.isArray(part)) return part.map((one) => walk(one, isNamedOutside));
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(
      Object.entries(part).map(([name, member]) => {
        if (typeof member !== 'string') return [mark(name), walk(member, isNamedOutside || NAMED_OUTSIDE.has(name))];
        if (!isNamedOutside && OWN.has(name)) return [name, member];
        return [mark(name), member !== '' && CONTENT.has(name) ? wrap(member) : mark(member)];
      }),
    );
  };
  const marked = walk(value, false);
  return { value: marked, tag: isUsed ? tag : undefined };
}
