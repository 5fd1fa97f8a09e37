/**
 * Generates the html of a template from MJML (https://documentation.mjml.io), a markup for responsive emails, with the compiler mrml. Liquid
 * tags in text and attributes pass through unchanged. `mj-include` is refused, so a source cannot read files or load URLs.
 */
import { Worker } from 'node:worker_threads';
import type { ToHtmlResult } from 'mrml';
import { moduleUrl } from '../base/program-files.ts';
import { createSemaphore } from '../base/semaphore.ts';
import { MAX_SOURCE_LENGTH } from './template.ts';

/** A problem of a source; line and column, if known, are counted from 1. */
export interface MjmlIssue {
  message: string;
  line?: number;
  column?: number;
}

export type Compiled = { html: string } | { issue: MjmlIssue };

/** Elements of MJML that the compiler implements; it drops others silently. */
const ELEMENTS = new Set(
  `accordion accordion-element accordion-text accordion-title all attributes body breakpoint button carousel carousel-image class column
   divider font group head hero image include navbar navbar-link preview raw section social social-element spacer style table text title
   wrapper`
    .split(/\s+/)
    .map((name) => `mj-${name}`),
);

/** A source of 2,000,000 characters takes about 3 s on an idle processor. */
const DEADLINE_MS = 20_000;
const compilers = createSemaphore(2);
/** Compilations that may wait or run: of one account, and of all. */
const MOST_PENDING = { account: 5, all: 40 };
const pending = new Map<string, number>();
/** Characters in the head that every element may repeat, times the number of elements: limits the memory of the compiler. */
const MOST_REPEATED = 50_000_000;
/** The styles of a carousel grow with the square of its images. */
const MOST_CAROUSEL_IMAGES = 100;
const TOO_LONG: MjmlIssue = { message: `generates more than ${MAX_SOURCE_LENGTH} characters of html` };
const TOO_COMPLEX: MjmlIssue = { message: 'is too large or too complex to compile' };

/**
 * Compiles in a thread, so that a large source delays no other request. Undefined if the account, or all accounts together, compile too much
 * at this time.
 */
export async function compileMjml(source: string, accountId: string): Promise<Compiled | undefined> {
  const issue = unknownElement(source) ?? repetitionIssue(source);
  if (issue) return { issue };
  const own = pending.get(accountId) ?? 0;
  const all = pending.values().reduce((sum, one) => sum + one, 0);
  if (own >= MOST_PENDING.account || all >= MOST_PENDING.all) return undefined;
  pending.set(accountId, own + 1);
  try {
    const result = await compilers.run(() => runCompiler(source));
    if (result === undefined) return { issue: TOO_COMPLEX };
    if (result === 'too-long') return { issue: TOO_LONG };
    return result.type === 'error' ? { issue: issueOf(source, result) } : { html: result.content };
  } finally {
    const left = pending.get(accountId)! - 1;
    if (left === 0) pending.delete(accountId);
    else pending.set(accountId, left);
  }
}

type Compilation = ToHtmlResult | 'too-long' | undefined;

/** Returns undefined if the compiler failed or did not finish in time. */
function runCompiler(source: string): Promise<Compilation> {
  const worker = new Worker(moduleUrl('templates/mjml-thread'), {
    workerData: { source, maxLength: MAX_SOURCE_LENGTH },
  });
  return new Promise((resolve) => {
    const end = (result: Compilation): void => {
      clearTimeout(timer);
      void worker.terminate();
      resolve(result);
    };
    const timer = setTimeout(end, DEADLINE_MS, undefined);
    worker.once('message', end);
    worker.once('error', () => end(undefined));
    worker.once('exit', () => end(undefined));
  });
}

/** Refuses sources whose head or images generate far more html than they have characters. */
function repetitionIssue(source: string): MjmlIssue | undefined {
  const body = source.indexOf('<mj-body');
  const headLength = body === -1 ? source.length : body;
  const elements = source.matchAll(/<mj-/g).reduce((count) => count + 1, 0);
  const images = source.matchAll(/<mj-carousel-image/g).reduce((count) => count + 1, 0);
  return headLength * elements > MOST_REPEATED || images > MOST_CAROUSEL_IMAGES ? TOO_LONG : undefined;
}

function unknownElement(source: string): MjmlIssue | undefined {
  for (const { 1: name = '', index } of source.matchAll(/<(mj-[a-z-]+)/g))
    if (!ELEMENTS.has(name)) return { message: `<${name}> is not an MJML element`, ...placeAt(source.slice(0, index)) };
  return undefined;
}

type Failure = Extract<ToHtmlResult, { type: 'error' }>;

function issueOf(source: string, failure: Failure): MjmlIssue {
  if (failure.origin === 'render') return { message: `cannot be compiled: ${failure.message}` };
  const { details } = failure;
  const at = 'position' in details ? placeOfByte(source, details.position.start) : {};
  switch (details.type) {
    case 'no-root-node':
      return { message: 'must have an <mjml> element around everything' };
    case 'end-of-stream':
      return { message: 'ends before all elements are closed' };
    case 'size-limit':
      return { message: 'is too large to compile' };
    case 'include-loader-error':
      return { message: 'must not use <mj-include>: insert the content instead', ...at };
    case 'missing-attribute':
      return { message: `lacks the attribute ${details.name}`, ...at };
    case 'invalid-attribute':
      return { message: 'has an attribute that is not allowed here', ...at };
    case 'unexpected-element':
      return { message: 'has an element that is not allowed here', ...at };
    case 'unexpected-token':
      return {
        message: 'has text or markup that is not allowed here',
        ...at,
      };
    case 'invalid-format':
      return { message: 'has a value of the wrong form', ...at };
    case 'parser-error': {
      // For example "invalid element at 1:24 cause invalid name token".
      const [, line, column] = /\bat (\d+):(\d+)/.exec(details.source) ?? [];
      const place = line === undefined ? {} : { line: Number(line), column: Number(column) };
      return {
        message: 'is not well-formed XML: close every tag, quote every attribute, and write < as &lt;',
        ...place,
      };
    }
  }
}

/** Returns the place of the first character that is not white space from this offset in UTF-8 on. */
function placeOfByte(source: string, offset: number): { line: number; column: number } {
  const before = Buffer.from(source).subarray(0, offset).toString();
  const [space = ''] = /^\s*/.exec(source.slice(before.length))!;
  return placeAt(before + space);
}

function placeAt(before: string): { line: number; column: number } {
  const lines = before.split('\n');
  return { line: lines.length, column: lines.at(-1)!.length + 1 };
}
