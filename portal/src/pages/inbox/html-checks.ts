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

/** Finds the destinations of links that match. */
const hrefs =
  (pattern: RegExp) =>
  (mail: Looked): string[] =>
    linksOf(mail)
      .map(({ attributes }) => (attributes.get('href') ?? '').trim())
      .filter((href) => pattern.test(href));

/** Hosts that only the sender's own machine or network can reach. */
const LOCAL_HOST =
  /^https?:\/\/(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|[^/?#:]+\.(?:local|localhost|internal|test))(?:[:/?#]|$)/i;
const SHORTENERS =
  /^https?:\/\/(?:www\.)?(?:bit\.ly|tinyurl\.com|t\.co|goo\.gl|ow\.ly|is\.gd|buff\.ly|rebrand\.ly|cutt\.ly)\//i;
/** An email with images and fewer visible characters than this counts as images only. */
const FEW_CHARACTERS = 40;

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
  { rule: 'relativeLink', level: 'bad', find: hrefs(/^(?![a-z][a-z0-9+.-]*:|\/\/|#|\{)./i) },
  { rule: 'localLink', level: 'bad', find: hrefs(LOCAL_HOST) },
  { rule: 'addressLink', level: 'bad', find: hrefs(/^https?:\/\/(?!127\.)(?:\d{1,3}\.){3}\d{1,3}(?:[:/?#]|$)/i) },
  { rule: 'shortLink', level: 'wait', find: hrefs(SHORTENERS) },
  {
    rule: 'placeholder',
    level: 'bad',
    find: ({ words, elements }) => [
      ...(words.match(/\{\{[^{}]{1,80}\}\}|%7B%7B/gi) ?? []),
      ...elements
        .filter(({ attributes }) => /\{\{|%7B%7B/i.test(attributes.get('href') ?? ''))
        .map(({ source }) => source),
    ],
  },
  {
    rule: 'dataImage',
    level: 'wait',
    find: ({ elements }) =>
      elements
        .filter(({ name, attributes }) => name === 'img' && /^data:/i.test(attributes.get('src') ?? ''))
        .map(({ source }) => source),
  },
  {
    rule: 'imageOnly',
    level: 'wait',
    find: ({ elements, words }) =>
      words.length < FEW_CHARACTERS && elements.some(({ name }) => name === 'img') ? [words] : [],
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

/** How many points of 100 a finding costs. */
export const POINTS: Readonly<Record<Finding['level'], number>> = { bad: 15, wait: 5 };

/** Returns the score of an email, from 0 to 100. */
export function scoreOf(findings: readonly Finding[]): number {
  return Math.max(0, 100 - findings.reduce((sum, { level }) => sum + POINTS[level], 0));
}

/** Returns the findings, the most important first; none for a message without HTML. */
export function findingsOf({ html, text }: CheckedMail): Finding[] {
  const mail = { html, text, ...scanHtml(html) };
  return RULES.flatMap(({ rule, level, find }) => {
    const found = find(mail);
    const examples = [...new Set(found)].filter((one) => one !== '').slice(0, EXAMPLES_SHOWN);
    return found.length === 0 ? [] : [{ rule, level, examples, count: found.length }];
  }).sort((one, other) => (one.level === other.level ? 0 : one.level === 'bad' ? -1 : 1));
}
