/** Generates tests that wait for an email like this one: for node:test, pytest, and Playwright. */
import { asTest } from '../../texts/inbox.ts';

export interface TestedMail {
  url: string;
  accountId: string;
  to: string;
  subject: string;
  hasCode: boolean;
  hasLink: boolean;
}

const TIMEOUT_SECONDS = 30;
const text = (value: string): string => `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
const lines = (...all: (string | false)[]): string => all.filter((one) => one !== false).join('\n');

/** Returns JavaScript that triggers the email and waits for it; earlier emails are ignored. */
function script(mail: TestedMail, indent: string): string {
  return lines(
    'const since = new Date().toISOString();',
    `// ${asTest.send}`,
    `const query = new URLSearchParams({ to: ${text(mail.to)}, since, timeoutSeconds: '${TIMEOUT_SECONDS}' });`,
    `const response = await fetch(\`${mail.url}/sandbox/inbox/wait?\${query}\`, {`,
    `  headers: { 'X-Id': ${text(mail.accountId)}, 'X-Api-Key': process.env.POSTRIDER_KEY },`,
    '});',
    'const email = await response.json();',
  ).replaceAll('\n', `\n${indent}`);
}

function node(mail: TestedMail): string {
  return lines(
    "import assert from 'node:assert/strict';",
    "import { test } from 'node:test';",
    '',
    `test('${asTest.testName}', async () => {`,
    `  ${script(mail, '  ')}`,
    '  assert.equal(response.status, 200, JSON.stringify(email));',
    `  assert.equal(email.subject, ${text(mail.subject)});`,
    mail.hasCode && '  assert.match(email.codes[0], /^[0-9A-Z][0-9A-Z -]*$/);',
    mail.hasLink && "  assert.ok(email.links[0].startsWith('http'));",
    '});',
  );
}

function playwright(mail: TestedMail): string {
  return lines(
    "import { expect, test } from '@playwright/test';",
    '',
    `test('${asTest.testName}', async ({ page }) => {`,
    `  ${script(mail, '  ')}`,
    '  expect(response.status).toBe(200);',
    `  expect(email.subject).toBe(${text(mail.subject)});`,
    mail.hasCode && "  await page.getByLabel('Code').fill(email.codes[0]);",
    mail.hasLink && '  await page.goto(email.links[0]);',
    '});',
  );
}

function python(mail: TestedMail): string {
  return lines(
    'import datetime, json, os, urllib.parse, urllib.request',
    '',
    '',
    'def test_email_arrives():',
    '    since = datetime.datetime.now(datetime.timezone.utc).isoformat()',
    `    # ${asTest.send}`,
    `    query = urllib.parse.urlencode({'to': ${text(mail.to)}, 'since': since, 'timeoutSeconds': ${TIMEOUT_SECONDS}})`,
    '    request = urllib.request.Request(',
    `        f'${mail.url}/sandbox/inbox/wait?{query}',`,
    `        headers={'X-Id': ${text(mail.accountId)}, 'X-Api-Key': os.environ['POSTRIDER_KEY']})`,
    `    with urllib.request.urlopen(request, timeout=${TIMEOUT_SECONDS + 5}) as response:`,
    '        email = json.load(response)',
    `    assert email['subject'] == ${text(mail.subject)}`,
    mail.hasCode && "    assert email['codes'][0]",
    mail.hasLink && "    assert email['links'][0].startswith('http')",
  );
}

export function testsOf(mail: TestedMail): Record<string, string> {
  return { 'node:test': node(mail), pytest: python(mail), Playwright: playwright(mail) };
}
