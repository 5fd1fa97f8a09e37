import assert from 'node:assert/strict';
import { test } from 'node:test';
import { baseType, isContentType, refusedFileType, withoutName } from './content-type.ts';

test('content types are validated', () => {
  for (const text of [
    'text/plain',
    'application/vnd.ms-excel',
    'image/svg+xml',
    'text/csv; charset=utf-8',
    'text/x; name="a b"; q=1',
  ]) {
    assert.ok(isContentType(text), text);
  }
  for (const text of [
    '',
    'text',
    'text/',
    '/plain',
    'text/plain;',
    'te xt/plain',
    'text/plain\r\nX: y',
    'text/plain; a="\n"',
    'text/plain; a',
    'text/ü',
    `text/${'x'.repeat(300)}`,
  ]) {
    assert.ok(!isContentType(text), text);
  }
  assert.equal(baseType('Text/HTML ; charset=x'), 'text/html');
});

test('rejects executables and scripts by extension, whatever the content type', () => {
  for (const name of [
    'a.exe',
    'A.EXE',
    'invoice.pdf.exe',
    'a.js',
    'a.bat',
    'a.ps1',
    'a.sh',
    'a.jar',
    'a.iso',
    'a.dll',
    'a.vbs',
    'a.msi',
    'a.php',
    'a.phtml',
    'a.phar',
    'a.rb',
    'a.mjs',
    'a.bash',
    'a.lua',
    'a.deb',
    'a.AppImage',
    'a.crx',
    'a.wasm',
    'a.jspx',
    'a.cgi',
    'a.class',
    'a.exe.',
    'a.exe ',
    'a.ｅｘｅ',
    'a.exe\u202e',
    '.cmd',
    ...'diagcab diagcfg diagpkg img library-ms search-ms appinstaller desktop terminal workflow scpt applescript tcsh bsh ahk au3 dylib ko mpkg'
      .split(' ')
      .map((extension) => `a.${extension}`),
  ]) {
    assert.match(refusedFileType({ name, contentType: 'application/pdf' }) ?? '', /executable or script file/, name);
  }
});

test('rejects executables however the name is disguised', () => {
  for (const name of [
    'a.txt:evil.exe',
    'x.exe::$DATA',
    'x.exe:stream.txt',
    'x.exe\uff1astream.txt',
    'x\u3002exe',
    'x\uff0eexe',
    'x\uff61exe',
    'x\u2024exe',
    'x\ufe52exe',
    'x.exe. ',
    'x.exe . . ',
    'x.exe\u3000',
    'x.ex\u200de',
    'x.e\u200cxe\u200e',
    'x.exe\ufe0f',
    'x.\uff45\uff58\uff45',
    'x. exe',
    'x.EXE\u00a0',
  ])
    assert.match(refusedFileType({ name, contentType: 'text/plain' }) ?? 'taken', /\(\.exe\)/, JSON.stringify(name));
  for (const name of ['Re: offer.pdf', 'exe: notes.txt', 'x.exe.pdf', 'x。pdf', 'ein.Exemplar'])
    assert.equal(refusedFileType({ name, contentType: 'text/plain' }), undefined, name);
});

test('rejects executables by content type, whatever the name', () => {
  for (const contentType of [
    'application/x-msdownload',
    'Application/JavaScript',
    'text/javascript; charset=utf-8',
    'application/x-sh',
    'application/hta',
    'application/java-archive',
    'application/x-php',
    'text/x-ruby',
    'text/x-python; charset=utf-8',
    'application/x-lua',
    'application/wasm',
    'application/vnd.debian.binary-package',
    'application/x-redhat-package-manager',
    'application/typescript',
    ...'application/x-pie-executable text/x-msdos-batch application/x-object text/x-lua text/x-tcl application/x-bytecode.python application/vnd.appimage text/x-bash text/x-csh application/x-tcl application/x-shar application/x-desktop'.split(
      ' ',
    ),
  ]) {
    assert.match(refusedFileType({ name: 'a.pdf', contentType }) ?? '', /content type/, contentType);
  }
});

test('accepts documents, images, and archives', () => {
  for (const name of [
    'a.pdf',
    'exe',
    'js',
    'a.docx',
    'a.xlsm',
    'a.zip',
    'report.js.pdf',
    'a.csv',
    'data.mat',
    'a.bin',
    'a.out',
    'a.ics',
    'a.eml',
    'logo.svg',
    'a.json',
    'a.com.pdf',
    'a.html',
    'a.p7s',
  ]) {
    assert.equal(refusedFileType({ name, contentType: 'application/octet-stream' }), undefined, name);
  }
});

test('only the name parameter is removed, in all its forms', () => {
  const cases: [string, string][] = [
    ['application/pdf', 'application/pdf'],
    ['text/plain; name="a b.pdf"', 'text/plain'],
    ['text/plain;NAME=evil.exe; charset=utf-8', 'text/plain; charset=utf-8'],
    ["text/plain; name*=UTF-8''%C3%BC; name*0=a ; name*1*=b; x=y", 'text/plain; x=y'],
    [
      'text/plain; filename="; name=x"; charset="name=\\"; name=y"',
      'text/plain; filename="; name=x"; charset="name=\\"; name=y"',
    ],
    ['application/vnd.name-of', 'application/vnd.name-of'],
  ];
  for (const [given, left] of cases) {
    assert.ok(isContentType(given), given);
    assert.equal(withoutName(given), left);
  }
});
