/**
 * The shipped documentation for agents: a search through the sections of docs/, the pages as Markdown, and llms.txt with llms-full.txt,
 * which list and join them. The files are read on the first use and kept; no name in a request reaches the file system. Decision records
 * are not included.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { failure, refuse } from '../base/failure.ts';
import { PROGRAM_FOLDER } from '../base/program-files.ts';
import { staticRoutes } from '../http/files.ts';
import { defineRoute, type RouteDefinition } from '../http/route.ts';
import { closed } from '../http/validate.ts';
import { defineTool, found, foundPiece, invalidArgument, type ToolDefinition } from './tool.ts';
import { cursor, text } from './tools-mail.ts';

const ROOT = path.join(PROGRAM_FOLDER, 'docs');
/** Folders in reading order, with the headings of llms.txt. */
const FOLDERS = [
  ['get-started', 'Get started'],
  ['guides', 'Guides'],
  ['reference', 'Reference'],
  ['move', 'Move to Postrider'],
  ['explanation', 'Explanation'],
] as const;

export interface DocsPage {
  /** Below docs/, such as `guides/send.md`. */
  path: string;
  title: string;
  /** The first paragraph. */
  lead: string;
  markdown: string;
}

/** Reads all pages of a documentation folder, in reading order. */
export async function readDocs(root: string = ROOT): Promise<DocsPage[]> {
  const pages: DocsPage[] = [];
  for (const [folder] of FOLDERS) {
    const names = (await readdir(path.join(root, folder))).filter((name) => name.endsWith('.md')).sort();
    for (const name of names) {
      const markdown = await readFile(path.join(root, folder, name), 'utf8');
      const [, title = name, lead = ''] = /^# (.+)\n+((?:.+\n)*)/.exec(markdown) ?? [];
      pages.push({ path: `${folder}/${name}`, title, lead: plain(lead), markdown });
    }
  }
  return pages;
}

function plain(markdown: string): string {
  return markdown
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll('\n', ' ')
    .trim();
}

/** Returns llms.txt (https://llmstxt.org): the pages with their first sentences, linked below `base`. */
export function llmsText(pages: readonly DocsPage[], base: string): string {
  const sections = FOLDERS.map(([folder, heading]) => {
    const own = pages.filter((page) => page.path.startsWith(`${folder}/`));
    const lines = own.map(({ path: file, title, lead }) => `- [${title}](${base}/${file}): ${lead}`);
    return `## ${heading}\n\n${lines.join('\n')}\n`;
  });
  const about =
    '> Postrider is a self-hosted transactional email server: HTTP API and SMTP in, DKIM, direct delivery, retries, signed webhooks, inbound mail, and a sandbox.';
  return `# Postrider\n\n${about}\n\n${sections.join('\n')}`;
}

/** Returns llms-full.txt: all pages in one text. */
export function llmsFullText(pages: readonly DocsPage[]): string {
  return pages.map(({ path: file, markdown }) => `<!-- docs/${file} -->\n\n${markdown.trim()}\n`).join('\n');
}

interface Section {
  page: string;
  heading: string;
  text: string;
  words: Map<string, number>;
  length: number;
}

function wordsOf(content: string): string[] {
  return (
    content
      .toLowerCase()
      .match(/[a-z0-9_]{2,}/g)
      ?.map((word) => word.replace(/(?:ing|es|ed|s)$/, '')) ?? []
  );
}

/** Weight of a word in a heading or title. */
const HEADING_WEIGHT = 4;

function sectionsOf({ path: page, title, markdown }: DocsPage): Section[] {
  return markdown.split(/^(?=#{1,3} )/m).map((content) => {
    const [, own = title] = /^#{1,3} (.+)/.exec(content) ?? [];
    const heading = own === title ? title : `${title}: ${own}`;
    const words = new Map<string, number>();
    const count = (list: readonly string[], weight: number): void => {
      for (const word of list) words.set(word, (words.get(word) ?? 0) + weight);
    };
    const all = wordsOf(content);
    count(all, 1);
    count(wordsOf(heading), HEADING_WEIGHT);
    return { page, heading, text: content.trim(), words, length: all.length };
  });
}

/** A search through sections by BM25: rare words weigh more, long sections less. */
export interface DocsIndex {
  pages: readonly DocsPage[];
  find(query: string, most: number): { page: string; heading: string; text: string }[];
}

const K1 = 1.2;
const B = 0.75;

export function indexDocs(pages: readonly DocsPage[]): DocsIndex {
  const sections = pages.flatMap(sectionsOf);
  const averageLength = sections.reduce((sum, { length }) => sum + length, 0) / Math.max(1, sections.length);
  const holders = new Map<string, number>();
  for (const { words } of sections) for (const word of words.keys()) holders.set(word, (holders.get(word) ?? 0) + 1);
  const scoreOf = ({ words, length }: Section, queryWords: readonly string[]): number => {
    let score = 0;
    for (const word of queryWords) {
      const count = words.get(word) ?? 0;
      const rarity = Math.log(
        1 + (sections.length - (holders.get(word) ?? 0) + 0.5) / ((holders.get(word) ?? 0) + 0.5),
      );
      score += (rarity * count * (K1 + 1)) / (count + K1 * (1 - B + (B * length) / averageLength));
    }
    return score;
  };
  return {
    pages,
    find: (query, most) => {
      const queryWords = [...new Set(wordsOf(query))];
      return sections
        .map((section) => ({ section, score: scoreOf(section, queryWords) }))
        .filter(({ score }) => score > 0)
        .sort((a, b) => b.score - a.score)
        .slice(0, most)
        .map(({ section: { page, heading, text: content } }) => ({ page, heading, text: content }));
    },
  };
}

/** Returns a function that reads the documentation on its first call. */
export function createDocs(read: () => Promise<DocsPage[]> = readDocs): () => Promise<DocsIndex> {
  let reading: Promise<DocsIndex> | undefined;
  return () => {
    reading ??= read()
      .then(indexDocs)
      .catch((error: unknown) => {
        reading = undefined;
        throw error;
      });
    return reading;
  };
}

const EXCERPT = 1_200;

export function searchDocs(docs: () => Promise<DocsIndex>): ToolDefinition {
  return defineTool({
    name: 'search_docs',
    title: 'Search the documentation',
    description: "Searches Postrider's documentation for query, or returns a page of it, such as guides/send.md.",
    schema: closed({ query: text(500), page: text(200), cursor }),
    run: async (_context, { query, page, cursor: after }) => {
      const index = await docs();
      if (page !== undefined) return pageOf(index, page, after);
      if (query === undefined) return invalidArgument('`query` or `page` is required.');
      const items = index.find(query, 6).map((one) => ({ ...one, text: one.text.slice(0, EXCERPT) }));
      return found({ items }, { isTrusted: true });
    },
  });
}

function pageOf({ pages }: DocsIndex, name: string, after: string | undefined) {
  const known = pages.find(({ path: file }) => file === name.replace(/^\/?(?:docs\/)?/, ''));
  if (known === undefined)
    return invalidArgument(`\`page\` must be a page from the search results, such as guides/send.md, not ${name}.`);
  const dataOf = (piece: string, nextCursor: string | null) => ({
    page: known.path,
    title: known.title,
    text: piece,
    nextCursor,
  });
  return foundPiece(known.markdown, after, dataOf, { isTrusted: true });
}

const PLAIN = 'text/plain; charset=utf-8';
const MARKDOWN = 'text/markdown; charset=utf-8';

const UNKNOWN_PAGE = refuse(
  failure('NOT_FOUND', { message: 'No documentation page has this path. /llms.txt lists all pages.' }),
);

/** Routes of llms.txt, llms-full.txt, and every page as Markdown below /docs. */
export function docsTextRoutes<C>(docs: () => Promise<DocsIndex>, { basePath = '' } = {}): RouteDefinition<C>[] {
  const pages = async () => (await docs()).pages;
  return [
    ...staticRoutes<C>([
      { path: '/llms.txt', contentType: PLAIN, read: async () => llmsText(await pages(), `${basePath}/docs`) },
      { path: '/llms-full.txt', contentType: PLAIN, read: async () => llmsFullText(await pages()) },
    ]),
    defineRoute<C>({
      method: 'GET',
      path: '/docs/:folder/:page',
      tag: 'service',
      access: { auth: 'none' },
      hidden: true,
      ownQuery: true,
      summary: 'Download a page of the documentation as Markdown',
      response: { status: 200, contentType: MARKDOWN },
      handle: async ({ params }) => {
        const known = (await pages()).find(({ path: file }) => file === `${params.folder}/${params.page}`);
        return known === undefined ? UNKNOWN_PAGE : { ok: true, contentType: MARKDOWN, content: known.markdown };
      },
    }),
  ];
}
