/**
 * Builds the documentation as a searchable static site in site/dist. It stages docs/ and the Markdown files of the root in site/pages, with
 * links that fit the site, and runs VitePress on them. VitePress has its own package in site/, which is installed on the first build, so that
 * `npm ci` of the service stays small. The build itself needs no network.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { renderReference } from '../src/http/reference/page.ts';
import { REFERENCE_ASSETS } from '../src/http/reference/routes.ts';
import { llmsFullText, llmsText, readDocs } from '../src/mcp/mcp.ts';

const root = path.dirname(import.meta.dirname);
const site = path.join(root, 'site');
const pages = path.join(site, 'pages');

/** Returns the page of a repository file in the site; undefined if it is not part of it. */
function pageOf(file: string): string | undefined {
  if (!file.includes('/') && file.endsWith('.md') && file !== 'README.md') return file.toLowerCase();
  if (!file.startsWith('docs/')) return undefined;
  return file.slice('docs/'.length).replace(/README\.md$/, 'index.md');
}

/** Returns the page with links to other pages of the site; other links into the repository become plain text. */
function staged(file: string, markdown: string): string {
  const page = pageOf(file)!;
  return markdown.replace(/(!?)\[([^\]]*)\]\(([^)\s]+)\)/g, (whole, image: string, text: string, link: string) => {
    if (/^([a-z]+:|#)/.test(link)) return whole;
    const [target = '', anchor] = link.split('#');
    const found = pageOf(path.posix.normalize(path.posix.join(path.posix.dirname(file), target)));
    if (found === undefined) return text;
    const relative = path.posix.relative(path.posix.dirname(page), found);
    const local = relative.startsWith('.') ? relative : `./${relative}`;
    return `${image}[${text}](${local}${anchor === undefined ? '' : `#${anchor}`})`;
  });
}

function run(command: string, args: string[]): void {
  const { status } = spawnSync(command, args, { cwd: site, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

/** Writes the API reference, the page that a service serves at /docs, with its files. */
async function writeReference(folder: string): Promise<void> {
  mkdirSync(path.join(folder, 'static'), { recursive: true });
  const document = JSON.parse(readFileSync(path.join(root, 'docs/openapi.json'), 'utf8'));
  const urls = { assets: 'static', document: '../openapi.json' };
  writeFileSync(path.join(folder, 'index.html'), await renderReference(document, urls));
  for (const name of Object.keys(REFERENCE_ASSETS)) {
    cpSync(path.join(root, 'src/http/reference', name), path.join(folder, 'static', name));
  }
}

rmSync(pages, { recursive: true, force: true });
for (const file of globSync(['*.md', 'docs/**/*.md'], { cwd: root })) {
  const page = pageOf(file.split(path.sep).join('/'));
  if (page === undefined) continue;
  const target = path.join(pages, page);
  mkdirSync(path.dirname(target), { recursive: true });
  writeFileSync(target, staged(file, readFileSync(path.join(root, file), 'utf8')));
}
cpSync(path.join(root, 'docs/images'), path.join(pages, 'images'), { recursive: true });
mkdirSync(path.join(pages, 'public'), { recursive: true });
cpSync(path.join(root, 'docs/openapi.json'), path.join(pages, 'public/openapi.json'));
await writeReference(path.join(pages, 'public/api'));
const docs = await readDocs();
writeFileSync(path.join(pages, 'public/llms.txt'), llmsText(docs, ''));
writeFileSync(path.join(pages, 'public/llms-full.txt'), llmsFullText(docs));
for (const { path: file, markdown } of docs) {
  mkdirSync(path.join(pages, 'public', path.dirname(file)), { recursive: true });
  writeFileSync(path.join(pages, 'public', file), markdown);
}

if (!existsSync(path.join(site, 'node_modules/vitepress'))) run('npm', ['ci']);
run(process.execPath, [path.join(site, 'node_modules/vitepress/bin/vitepress.js'), 'build', '.']);
