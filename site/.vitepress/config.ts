/**
 * The static site of docs/: navigation from docs/README.md, search in the browser, nothing from other hosts. It reads the pages that
 * scripts/build-docs-site.ts stages in site/pages. A dead link fails the build.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type DefaultTheme, defineConfig } from 'vitepress';

const pages = path.resolve(import.meta.dirname, '../pages');

/** The lists below the headings of the index page, as the sidebar. */
function sidebarOf(index: string): DefaultTheme.SidebarItem[] {
  const [, ...sections] = index.split(/^## /m);
  return sections.map((section) => {
    const [heading, ...groups] = section.split(/^### /m);
    const title = heading!.split('\n')[0]!;
    const linksOf = (text: string): DefaultTheme.SidebarItem[] =>
      [...text.matchAll(/^- \[([^\]]+)\]\(([^)]+)\.md\)/gm)].map(([, name, link]) => ({
        text: name!,
        link: `/${link}`,
      }));
    const items = [
      ...linksOf(heading!),
      ...groups.map((group) => ({ text: group.split('\n')[0]!, items: linksOf(group), collapsed: false })),
    ];
    return { text: title, items, collapsed: title !== 'Get started' && title !== 'Guides' };
  });
}

/** As GitHub makes anchors, so that the same links work in both. */
const slugify = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');

export default defineConfig({
  title: 'Postrider',
  description: 'A self-hosted transactional email server',
  lang: 'en-US',
  // The service serves the site here (src/http/guide.ts).
  base: '/guide/',
  srcDir: pages,
  // Served as they are, for programs that read Markdown.
  srcExclude: ['public/**'],
  outDir: path.resolve(import.meta.dirname, '../dist'),
  cacheDir: path.resolve(import.meta.dirname, '../cache'),
  cleanUrls: true,
  markdown: {
    anchor: { slugify },
    languageAlias: { caddy: 'nginx', haproxy: 'ini' },
    config(markdown) {
      // Liquid in code is not a template of Vue.
      markdown.renderer.rules.code_inline = (tokens, index) =>
        `<code v-pre>${markdown.utils.escapeHtml(tokens[index]!.content)}</code>`;
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: sidebarOf(readFileSync(path.join(pages, 'index.md'), 'utf8')),
    outline: [2, 3],
    nav: [
      { text: 'Quickstart', link: '/get-started/quickstart' },
      { text: 'Guides', link: '/#guides' },
      { text: 'Reference', link: '/#reference' },
      // A page of its own (src/http/reference/), which the router of VitePress cannot open.
      { text: 'API reference', link: '/api/', target: '_self' },
    ],
  },
});
