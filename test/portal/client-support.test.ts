/** Features in the HTML of an email: found by their rules, and which email clients do not support them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FEATURES, type HtmlUsage } from '../../portal/src/pages/inbox/client-features.ts';
import table from '../../portal/src/pages/inbox/client-support.json' with { type: 'json' };
import { clientNames, limitedFeatures } from '../../portal/src/pages/inbox/client-support.ts';
import { mailClients, mailPlatforms } from '../../portal/src/texts/inbox.ts';

const EMPTY: HtmlUsage = { elements: [], blocks: [], selectors: [], atRules: [] };
const element = (name: string, attributes: Record<string, string> = {}) => ({
  name,
  attributes: new Map(Object.entries(attributes)),
});
const block = (values: Record<string, string>, text = '') => ({ text, values: new Map(Object.entries(values)) });
const countsOf = (usage: Partial<HtmlUsage>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(FEATURES).flatMap(([name, count]) => {
      const found = count({ ...EMPTY, ...usage });
      return found === 0 ? [] : [[name, found]];
    }),
  );

test('the table has each feature that the rules find, with a status for each client', () => {
  assert.deepEqual(Object.keys(table.features), Object.keys(FEATURES).sort());
  assert.ok(table.clients.length >= 20 && Object.keys(FEATURES).length > 200);
  for (const [name, one] of Object.entries<{ title: string; support: string; notes?: object }>(table.features)) {
    assert.match(one.support, new RegExp(`^[ynau]{${table.clients.length}}$`), name);
    assert.match(one.support, /[na]/, `${name} is limited somewhere`);
    assert.ok(one.title.length > 0, name);
    for (const note of Object.keys(one.notes ?? {})) assert.doesNotMatch(note, /\]\(|^$/, `${name}: ${note}`);
  }
  for (const client of table.clients) {
    const [family = '', platform = ''] = client.split('.');
    assert.ok(family in mailClients && platform in mailPlatforms, client);
  }
});

test('facts that everyone who writes email knows are in the table', () => {
  const statusOf = (name: keyof typeof table.features, client: string): string =>
    table.features[name].support[table.clients.indexOf(client)]!;
  assert.equal(statusOf('css-border-radius', 'outlook.windows'), 'n');
  assert.equal(statusOf('css-background-image', 'outlook.windows'), 'n');
  assert.equal(statusOf('css-at-media', 'outlook.windows'), 'n');
  assert.equal(statusOf('css-at-media', 'apple-mail.ios'), 'y');
  assert.equal(statusOf('css-position', 'gmail.desktop-webmail'), 'n');
  assert.equal(statusOf('html-svg', 'gmail.ios'), 'n');
  assert.equal(statusOf('css-variables', 'gmail.desktop-webmail'), 'n');
});

test('an app is named after its family, and a complete family has one name', () => {
  const positions = (...clients: string[]): number[] => clients.map((client) => table.clients.indexOf(client));
  assert.deepEqual(clientNames(positions('gmail.desktop-webmail', 'gmail.ios', 'gmail.android')), ['Gmail']);
  assert.deepEqual(clientNames(positions('gmail.ios', 'outlook.windows', 'gmail.android', 'gmx.desktop-webmail')), [
    'Gmail (iOS, Android)',
    'Outlook (classic)',
    'GMX',
  ]);
  assert.deepEqual(clientNames([]), []);
});

test('declarations count once per block, if they have an effect', () => {
  const blocks = [
    block({ 'border-top-left-radius': '4px', 'border-bottom-right-radius': '4px' }),
    block({ 'border-top-left-radius': '0px' }),
    block({ 'background-image': 'initial', 'background-color': 'red' }, 'background: red;'),
    block({ 'max-width': 'none', 'margin-left': 'auto', 'margin-top': '0px' }),
    block({ display: 'inline-flex' }),
    block({ width: 'calc(100% - 2rem)' }, 'width: calc(100% - 2rem);'),
    block({ 'background-image': 'url("a 2rem.png")' }, 'background-image: url("a 2rem.png");'),
  ];
  assert.deepEqual(countsOf({ blocks }), {
    'css-background-image': 1,
    'css-width': 1,
    'css-background': 1,
    'css-border-radius': 1,
    'css-display': 1,
    'css-display-flex': 1,
    'css-margin': 1,
    'css-unit-calc': 1,
    'css-unit-rem': 1,
  });
});

test('selectors are told apart', () => {
  const named = (selector: string): string[] => Object.keys(countsOf({ selectors: [selector] })).sort();
  const prefix = (...names: string[]): string[] => names.map((name) => `css-${name}`);
  assert.deepEqual(named('.a .b, #c'), []);
  assert.deepEqual(named('a:hover'), prefix('pseudo-class-hover'));
  assert.deepEqual(named('p::first-line'), prefix('pseudo-element-first-line'));
  assert.deepEqual(named('a:focus-visible'), prefix('pseudo-class-focus-visible'));
  assert.deepEqual(named('tr:nth-child(2n + 1)'), prefix('pseudo-class-nth-child'));
  assert.deepEqual(named('td > a'), prefix('selector-child'));
  assert.deepEqual(named('a + b'), prefix('selector-adjacent-sibling'));
  assert.deepEqual(named('a ~ b'), prefix('selector-general-sibling'));
  assert.deepEqual(named('[class~="x > y:hover"]'), prefix('selector-attribute'));
  assert.deepEqual(named('* a'), prefix('selector-universal'));
});

test('elements, attributes, and images are counted', () => {
  const elements = [
    element('img', { src: 'https://shop.example/a.WEBP?x=.svg', loading: 'lazy' }),
    element('img', { src: 'data:image/png;base64,AA' }),
    element('img', { src: 'https://shop.example/a.png' }),
    element('a', { href: '#top' }),
    element('a', { href: 'https://shop.example/#top' }),
    element('table', { role: 'presentation' }),
    element('div', { role: 'article' }),
    element('section'),
    element('input'),
  ];
  assert.deepEqual(countsOf({ elements }), {
    'html-anchor-links': 1,
    'html-input-text': 1,
    'html-loading-attribute': 1,
    'html-role': 1,
    'html-semantics': 1,
    'image-base64': 1,
    'image-webp': 1,
  });
});

test('features that most clients do not support are first', () => {
  const blocks = [block({ 'accent-color': 'red' }), block({ opacity: '0.5' }), block({ opacity: '0.6' })];
  const [first, second, ...others] = limitedFeatures({ ...EMPTY, blocks });
  assert.deepEqual([first!.name, second!.name, others.length], ['css-accent-color', 'css-opacity', 0]);
  assert.equal(second!.count, 2);
  assert.ok(second!.unsupported.includes('Outlook (classic)'));
  assert.equal(second!.url, 'https://www.caniemail.com/features/css-opacity/');
  assert.deepEqual(limitedFeatures(EMPTY), []);
});
