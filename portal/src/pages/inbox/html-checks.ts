/**
 * Finds HTML that email clients do not display as intended: a table of rules. Each rule checks the message and returns excerpts of it;
 * texts/inbox.ts has the sentences under the same names.
 */
import { checks, type rules } from '../../texts/inbox.ts';
import { type HtmlElement, type ScannedHtml, scanHtml } from './html-elements.ts';

export interface CheckedMail {
  html: string;
  text: string | null;
}

type Looked = CheckedMail & ScannedHtml;

export interface Finding {
  rule: keyof typeof rules;
  level: 'bad' | 'wait';
  examples: readonly string[];
  count: number;
}

interface Rule extends Pick<Finding, 'rule' | 'level'> {
  find(mail: Looked): readonly string[];
}

/** Gmail clips messages above this size. */
const CLIP_BYTES = 102 * 1024;
const EXAMPLES_SHOWN = 3;
const PREHEADER_CHARACTERS = 60;

const named =
  (...names: string[]) =>
  ({ elements }: Looked): string[] =>
    elements.filter(({ name }) => names.includes(name)).map(({ source }) => source);

const declared =
  (pattern: RegExp) =>
  ({ declarations }: Looked): string[] =>
    declarations.filter((one) => pattern.test(one));

/** Only anchors are links. */
const linksOf = ({ elements }: Looked): HtmlElement[] =>
  elements.filter(
    ({ name, attributes }) =>
      name === 'a' && (attributes.has('href') || !(attributes.has('name') || attributes.has('id'))),
  );

/** Returns the hidden text at the start of the body. */
function preheader({ words, elements }: Looked): string[] {
  const hidden = elements.some(({ attributes }) =>
    /display\s*:\s*none|max-height\s*:\s*0|font-size\s*:\s*[01]px|mso-hide/i.test(attributes.get('style') ?? ''),
  );
  return hidden ? [] : [words.slice(0, PREHEADER_CHARACTERS)];
}

export const RULES: readonly Rule[] = [
  {
    rule: 'tooLarge',
    level: 'bad',
    find({ html }) {
      const bytes = new TextEncoder().encode(html).length;
      return bytes > CLIP_BYTES ? [checks.size(Math.ceil(bytes / 1024))] : [];
    },
  },
  { rule: 'noText', level: 'bad', find: ({ text }) => (text?.trim() ? [] : ['']) },
  {
    rule: 'imageWithoutAlt',
    level: 'bad',
    find: ({ elements }) =>
      elements.filter(({ name, attributes }) => name === 'img' && !attributes.has('alt')).map(({ source }) => source),
  },
  {
    rule: 'emptyLink',
    level: 'bad',
    find: (mail) =>
      linksOf(mail)
        .filter(({ attributes }) => /^(?:#?|javascript:.*|about:blank)$/i.test(attributes.get('href') ?? ''))
        .map(({ source }) => source),
  },
  {
    rule: 'insecureLink',
    level: 'wait',
    find: (mail) => linksOf(mail).flatMap(({ attributes }) => attributes.get('href')?.match(/^http:.*/i)?.[0] ?? []),
  },
  { rule: 'script', level: 'bad', find: named('script', 'iframe', 'frame', 'object', 'embed') },
  { rule: 'form', level: 'bad', find: named('form', 'input', 'select', 'textarea', 'button') },
  { rule: 'video', level: 'wait', find: named('video', 'audio') },
  { rule: 'svg', level: 'wait', find: named('svg') },
  {
    rule: 'externalStyles',
    level: 'bad',
    find: ({ elements, declarations }) => [
      ...elements
        .filter(({ name, attributes }) => name === 'link' && /stylesheet/i.test(attributes.get('rel') ?? ''))
        .map(({ source }) => source),
      ...declarations.filter((one) => /^@import\b/i.test(one)),
    ],
  },
  {
    rule: 'styleInBody',
    level: 'wait',
    find: ({ elements }) =>
      elements.filter(({ name, isInBody }) => name === 'style' && isInBody).map(({ source }) => source),
  },
  { rule: 'position', level: 'wait', find: declared(/^position\s*:\s*(?!static)/i) },
  { rule: 'flex', level: 'wait', find: declared(/^display\s*:\s*(?:inline-)?flex/i) },
  { rule: 'grid', level: 'wait', find: declared(/^display\s*:\s*(?:inline-)?grid/i) },
  { rule: 'noTitle', level: 'wait', find: ({ title }) => (title === '' ? [''] : []) },
  { rule: 'noPreheader', level: 'wait', find: preheader },
];

/** Returns the findings, the most important first; none for a message without HTML. */
export function findingsOf({ html, text }: CheckedMail): Finding[] {
  const mail = { html, text, ...scanHtml(html) };
  return RULES.flatMap(({ rule, level, find }) => {
    const found = find(mail);
    const examples = [...new Set(found)].filter((one) => one !== '').slice(0, EXAMPLES_SHOWN);
    return found.length === 0 ? [] : [{ rule, level, examples, count: found.length }];
  }).sort((one, other) => (one.level === other.level ? 0 : one.level === 'bad' ? -1 : 1));
}
