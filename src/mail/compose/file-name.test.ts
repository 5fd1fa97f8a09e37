import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileNameIssue } from './content-type.ts';

const RTL_OVERRIDE = String.fromCharCode(0x202e);

test('common file names are accepted', () => {
  const names = [
    'report.pdf',
    'Übersicht 2026 (final).xlsx',
    'تقرير.pdf',
    '報告書.docx',
    'نامه\u200cها.pdf',
    'Re: offer 12:30.pdf',
    '🏴󠁧󠁢󠁥󠁮󠁧󠁿.png',
    '❤️.txt',
    '.htaccess',
    'a..b',
    `x'"&%$#;=`,
  ];
  for (const name of [...names, '👩‍💻.txt', '~', 'a'.repeat(255), 'é'.repeat(127)]) {
    assert.equal(fileNameIssue(name), undefined, name);
  }
});

test('path names, header-breaking names, and misleading names are rejected', () => {
  const refused: [name: string, reason: RegExp][] = [
    ['', /empty/],
    ['  ', /empty/],
    ['../../x', /without \//],
    ['/etc/passwd', /without \//],
    ['C:\\x', /without \//],
    ['..', /folder/],
    ['.', /folder/],
    ['a\0b', /control/],
    ['a\r\nBcc: x', /control/],
    ['a\tb', /control/],
    ['a\u0085b', /control/],
    ['a\u2028b', /control/],
    ['a\u007fb', /control/],
    [`invoice${RTL_OVERRIDE}fdp.exe`, /direction/],
    ['a\u2066b', /direction/],
    ['a.tx\u200bt', /invisible/],
    ['a\u00ad.pdf', /invisible/],
    ['\ufeffa.pdf', /invisible/],
    ['a\u3164.pdf', /invisible/],
    ['a.txt::$DATA', /stream/],
    ['a.txt:$INDEX_ALLOCATION', /stream/],
    ['a'.repeat(256), /255 bytes/],
    ['é'.repeat(128), /255 bytes/],
  ];
  for (const [name, reason] of refused) assert.match(fileNameIssue(name) ?? 'taken', reason, JSON.stringify(name));
});
