/** Notices as text and as html: the same content, times with their zone, and nothing that is read as markup. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderNotice, timeText } from './notice.ts';

const AT = Date.parse('2026-07-01T22:30:05.999Z');
const NOTICE = {
  subject: 'Webhook disabled: https://shop.example/<b>',
  parts: [
    'It failed & was disabled.',
    {
      facts: [
        ['Endpoint', 'https://shop.example/<script>alert(1)</script>'],
        ['At', { atMs: AT, note: 'then it stops' }],
      ],
    },
    { code: ['PATCH /webhooks/whk_1 with "enabled": true', 'POST /webhooks/whk_1/replay'] },
  ],
} as const;
const FRAME = { sender: 'Ann’s "Shop" <ann>', timeZone: 'Europe/Berlin', footer: 'You receive notices of <Shop>.' };

test('a time names its zone, also across midnight and daylight saving time', () => {
  assert.equal(timeText(AT, 'UTC'), '2026-07-01 22:30:05 UTC');
  assert.equal(timeText(AT, 'Europe/Atlantis'), '2026-07-01 22:30:05 UTC', 'a zone that this node does not know');
  assert.equal(timeText(AT, 'Europe/Berlin'), '2026-07-02 00:30:05 Europe/Berlin (GMT+2)');
  assert.equal(
    timeText(Date.parse('2026-01-01T00:00:00Z'), 'Europe/Berlin'),
    '2026-01-01 01:00:00 Europe/Berlin (GMT+1)',
  );
  assert.equal(timeText(AT, 'Asia/Kolkata'), '2026-07-02 04:00:05 Asia/Kolkata (GMT+5:30)');
  assert.equal(timeText(AT, 'America/St_Johns'), '2026-07-01 20:00:05 America/St_Johns (GMT-2:30)');
});

test('the text lists facts in columns and ends with the footer and its link', () => {
  const link = { text: 'Choose your notices', url: 'https://mail.example/app/live/settings?account=acc_1' };
  assert.equal(
    renderNotice(NOTICE, { ...FRAME, link }).text,
    `It failed & was disabled.

Endpoint: https://shop.example/<script>alert(1)</script>
At:       2026-07-02 00:30:05 Europe/Berlin (GMT+2); then it stops

PATCH /webhooks/whk_1 with "enabled": true
POST /webhooks/whk_1/replay

You receive notices of <Shop>.
Choose your notices: https://mail.example/app/live/settings?account=acc_1
`,
  );
});

test('the html has the same content, escaped, and refers to the logo only', () => {
  const { html } = renderNotice(NOTICE, { ...FRAME, logoId: 'logo@mail.example' });
  for (const text of [
    'It failed &amp; was disabled.',
    'https://shop.example/&lt;script&gt;alert(1)&lt;/script&gt;',
    '2026-07-02 00:30:05 Europe/Berlin (GMT+2); then it stops',
    'PATCH /webhooks/whk_1 with &#34;enabled&#34;: true<br>POST /webhooks/whk_1/replay',
    'Ann’s &#34;Shop&#34; &lt;ann&gt;',
    'You receive notices of &lt;Shop&gt;.',
  ])
    assert.ok(html.includes(text), text);
  assert.ok(!/<script|<b>|<ann>/.test(html));
  assert.deepEqual(
    [...html.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, url]) => url),
    ['cid:logo@mail.example'],
  );
  assert.ok(!renderNotice(NOTICE, FRAME).html.includes('<img'));
});
