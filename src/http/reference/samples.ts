/**
 * Writes a call of the API as a program in each language of the API reference, with the languages' own libraries. Every program is complete.
 * It reads the URL and the credentials from environment variables and prints the response.
 */
export interface SampleHeader {
  name: string;
  /** The fixed text of the value, before the variable. */
  text: string;
  /** The environment variable that completes the value. */
  variable?: string;
}

export type SampleBody =
  | { kind: 'json'; value: unknown }
  | { kind: 'text'; text: string }
  /** The contents of a file. */
  | { kind: 'file'; name: string };

export interface SampleCall {
  method: string;
  /** Path and query, percent-encoded. */
  target: string;
  headers: SampleHeader[];
  body: SampleBody | undefined;
  /** How to use the response: parse it, print it, print it as it arrives, or save it as a file. */
  result: 'json' | 'text' | 'stream' | 'file';
}

export interface Language {
  id: string;
  name: string;
  write: (call: SampleCall) => string;
}

/** The file in which examples save a response, and that of an upload. */
const SAVED = 'response.bin';

interface Notation {
  text: (value: string) => string;
  key: (name: string) => string;
  words: readonly [nothing: string, yes: string, no: string];
  object: readonly [open: string, close: string, empty: string];
  indent: string;
  /** Whether short objects have spaces inside their braces. */
  spaced: boolean;
}

const LINE_LENGTH = 72;

/** Writes a JSON value as a literal, short ones on one line. */
function literal(value: unknown, notation: Notation, margin = ''): string {
  if (value === null || value === undefined) return notation.words[0];
  if (typeof value === 'boolean') return notation.words[value ? 1 : 2];
  if (typeof value === 'string') return notation.text(value);
  if (typeof value !== 'object') return String(value);
  const isArray = Array.isArray(value);
  const [open, close] = isArray ? ['[', ']'] : notation.object;
  const inner = margin + notation.indent;
  const membersAt = (at: string): string[] =>
    isArray
      ? value.map((one) => literal(one, notation, at))
      : Object.entries(value).map(([name, one]) => `${notation.key(name)}${literal(one, notation, at)}`);
  const members = membersAt(inner);
  if (members.length === 0) return isArray ? '[]' : notation.object[2];
  const space = notation.spaced && !isArray ? ' ' : '';
  const short = `${open}${space}${members.join(', ')}${space}${close}`;
  if (margin !== '' && !short.includes('\n') && short.length + margin.length <= LINE_LENGTH) return short;
  return `${open}\n${members.map((one) => `${inner}${one},\n`).join('')}${margin}${close}`;
}

/** A value in double quotes, valid in JavaScript, Python, and Go. */
const doubleQuoted = (text: string): string =>
  JSON.stringify(text).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');

const singleQuotedScript = (text: string): string =>
  `'${doubleQuoted(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;

/** PHP resolves escapes of control characters in double quotes only. */
function quotedPhp(text: string): string {
  if (!/[\u0000-\u001f\u007f]/.test(text)) return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const escaped = text.replace(/[\u0000-\u001f\u007f"\\$]/g, (one) => {
    if (one === '\n') return '\\n';
    if (one === '\r') return '\\r';
    if (one === '\t') return '\\t';
    return /["\\$]/.test(one) ? `\\${one}` : `\\x${one.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
  return `"${escaped}"`;
}

const quotedShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

const SCRIPT: Notation = {
  text: singleQuotedScript,
  key: (name) => `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : singleQuotedScript(name)}: `,
  words: ['null', 'true', 'false'],
  object: ['{', '}', '{}'],
  indent: '  ',
  spaced: true,
};

const PYTHON: Notation = {
  text: doubleQuoted,
  key: (name) => `${doubleQuoted(name)}: `,
  words: ['None', 'True', 'False'],
  object: ['{', '}', '{}'],
  indent: '    ',
  spaced: false,
};

const PHP: Notation = {
  text: quotedPhp,
  key: (name) => `${quotedPhp(name)} => `,
  words: ['null', 'true', 'false'],
  object: ['[', ']', 'new stdClass()'],
  indent: '    ',
  spaced: false,
};

/** Indents all lines of a literal except the first. */
const indented = (text: string, margin: string): string => text.replaceAll('\n', `\n${margin}`);

function curl({ method, target, headers, body, result }: SampleCall): string {
  const impliedMethod = body === undefined ? 'GET' : 'POST';
  const lines = [
    `curl${method === impliedMethod ? '' : ` -X ${method}`}${result === 'stream' ? ' -N' : ''} "$POSTRIDER_URL${target}"`,
    ...headers.map(({ name, text, variable }) =>
      variable === undefined ? `-H ${quotedShell(`${name}: ${text}`)}` : `-H "${name}: ${text}$${variable}"`,
    ),
  ];
  if (body?.kind === 'json') lines.push(`-d ${quotedShell(JSON.stringify(body.value, null, 2))}`);
  if (body?.kind === 'text') lines.push(`--data-raw ${quotedShell(body.text)}`);
  if (body?.kind === 'file') lines.push(`--data-binary @${body.name}`);
  if (result === 'file') lines.push(`-o ${SAVED}`);
  return lines.join(' \\\n  ');
}

function scriptHeader({ name, text, variable }: SampleHeader): string {
  const environment = `process.env.${variable}`;
  const value = text === '' ? environment : `\`${text}\${${environment}}\``;
  return `${SCRIPT.key(name)}${variable === undefined ? singleQuotedScript(text) : value},`;
}

function node({ method, target, headers, body, result }: SampleCall): string {
  const files = [body?.kind === 'file' ? 'readFile' : '', result === 'file' ? 'writeFile' : ''].filter(Boolean);
  const options = [
    ...(method === 'GET' ? [] : [`  method: '${method}',`]),
    ...(headers.length === 0 ? [] : ['  headers: {', ...headers.map((one) => `    ${scriptHeader(one)}`), '  },']),
  ];
  if (body?.kind === 'json') options.push(`  body: JSON.stringify(${indented(literal(body.value, SCRIPT), '  ')}),`);
  if (body?.kind === 'text') options.push(`  body: ${singleQuotedScript(body.text)},`);
  if (body?.kind === 'file') options.push(`  body: await readFile('${body.name}'),`);
  const url = `\`\${process.env.POSTRIDER_URL}${target}\``;
  const uses = {
    json: ['console.log(response.status, await response.json());'],
    text: ['console.log(response.status, await response.text());'],
    stream: ['for await (const chunk of response.body) process.stdout.write(chunk);'],
    file: ['console.log(response.status);', `await writeFile('${SAVED}', Buffer.from(await response.arrayBuffer()));`],
  };
  return [
    ...(files.length === 0 ? [] : [`import { ${files.join(', ')} } from 'node:fs/promises';`, '']),
    ...(options.length === 0
      ? [`const response = await fetch(${url});`]
      : [`const response = await fetch(${url}, {`, ...options, '});']),
    ...uses[result],
  ].join('\n');
}

function pythonHeader({ name, text, variable }: SampleHeader): string {
  const environment = `os.environ["${variable}"]`;
  const value = text === '' ? environment : `${doubleQuoted(text)} + ${environment}`;
  return `${doubleQuoted(name)}: ${variable === undefined ? doubleQuoted(text) : value},`;
}

function python({ method, target, headers, body, result }: SampleCall): string {
  const needsJson = body?.kind === 'json' || result === 'json';
  const rest = [
    ...(headers.length === 0
      ? []
      : ['    headers={', ...headers.map((one) => `        ${pythonHeader(one)}`), '    },']),
  ];
  if (body?.kind === 'json')
    rest.push(`    data=json.dumps(${indented(literal(body.value, PYTHON), '    ')}).encode(),`);
  if (body?.kind === 'text') rest.push(`    data=${doubleQuoted(body.text)}.encode(),`);
  if (body?.kind === 'file') rest.push(`    data=open("${body.name}", "rb").read(),`);
  const uses = {
    json: ['    print(response.status, json.load(response))'],
    text: ['    print(response.status, response.read().decode())'],
    stream: ['    for line in response:', '        print(line.decode(), end="", flush=True)'],
    file: ['    print(response.status)', `    open("${SAVED}", "wb").write(response.read())`],
  };
  return [
    ...(needsJson ? ['import json'] : []),
    'import os',
    'import urllib.request',
    '',
    'request = urllib.request.Request(',
    `    os.environ["POSTRIDER_URL"] + "${target}",`,
    `    method="${method}",`,
    ...rest,
    ')',
    'with urllib.request.urlopen(request) as response:',
    ...uses[result],
  ].join('\n');
}

function phpHeader({ name, text, variable }: SampleHeader): string {
  const fixed = quotedPhp(`${name}: ${text}`);
  return `${fixed}${variable === undefined ? '' : ` . getenv('${variable}')`},`;
}

function php({ method, target, headers, body, result }: SampleCall): string {
  const options = [
    ...(method === 'GET' ? [] : [`    CURLOPT_CUSTOMREQUEST => '${method}',`]),
    ...(result === 'stream' ? [] : ['    CURLOPT_RETURNTRANSFER => true,']),
    ...(headers.length === 0
      ? []
      : ['    CURLOPT_HTTPHEADER => [', ...headers.map((one) => `        ${phpHeader(one)}`), '    ],']),
  ];
  if (body?.kind === 'json') {
    options.push(`    CURLOPT_POSTFIELDS => json_encode(${indented(literal(body.value, PHP), '    ')}),`);
  }
  if (body?.kind === 'text') options.push(`    CURLOPT_POSTFIELDS => ${quotedPhp(body.text)},`);
  if (body?.kind === 'file') options.push(`    CURLOPT_POSTFIELDS => file_get_contents('${body.name}'),`);
  const status = 'curl_getinfo($request, CURLINFO_RESPONSE_CODE)';
  const printed = ['$response = curl_exec($request);', `echo ${status}, ' ', $response, PHP_EOL;`];
  const uses = {
    json: printed,
    text: printed,
    stream: ['curl_exec($request);'],
    file: [`file_put_contents('${SAVED}', curl_exec($request));`, `echo ${status}, PHP_EOL;`],
  };
  return [
    '<?php',
    `$request = curl_init(getenv('POSTRIDER_URL') . '${target}');`,
    ...(options.length === 0 ? [] : ['curl_setopt_array($request, [', ...options, ']);']),
    ...uses[result],
  ].join('\n');
}

function goHeader({ name, text, variable }: SampleHeader): string {
  const environment = `os.Getenv("${variable}")`;
  const value = text === '' ? environment : `${doubleQuoted(text)}+${environment}`;
  return `\trequest.Header.Set("${name}", ${variable === undefined ? doubleQuoted(text) : value})`;
}

/** A text in backticks, in which only a backtick needs an escape. */
const rawGo = (text: string): string => `\`${text.replaceAll('`', '` + "`" + `')}\``;

function go({ method, target, headers, body, result }: SampleCall): string {
  const stop = ['\tif err != nil {', '\t\tlog.Fatal(err)', '\t}'];
  const imports = ['io', 'log', 'net/http', 'os'];
  const create: string[] = [];
  if (body?.kind === 'json' || body?.kind === 'text') {
    imports.push('strings');
    const text = body.kind === 'json' ? rawGo(JSON.stringify(body.value, null, 2)) : doubleQuoted(body.text);
    create.push(`\tbody := strings.NewReader(${text})`);
  }
  if (body?.kind === 'file') {
    imports.push('bytes');
    create.push(`\tfile, err := os.ReadFile("${body.name}")`, ...stop, '\tbody := bytes.NewReader(file)');
  }
  const output = result === 'file' ? 'saved' : 'os.Stdout';
  const save = result === 'file' ? [`\tsaved, err := os.Create("${SAVED}")`, ...stop, '\tdefer saved.Close()'] : [];
  const url = `os.Getenv("POSTRIDER_URL")+"${target}"`;
  return [
    'package main',
    '',
    'import (',
    ...imports.sort().map((one) => `\t"${one}"`),
    ')',
    '',
    'func main() {',
    ...create,
    `\trequest, err := http.NewRequest("${method}", ${url}, ${body === undefined ? 'nil' : 'body'})`,
    ...stop,
    ...headers.map(goHeader),
    '\tresponse, err := http.DefaultClient.Do(request)',
    ...stop,
    '\tdefer response.Body.Close()',
    ...save,
    '\tlog.Println(response.Status)',
    `\tif _, err := io.Copy(${output}, response.Body); err != nil {`,
    '\t\tlog.Fatal(err)',
    '\t}',
    '}',
  ].join('\n');
}

/** The languages of the reference, in the order of their tabs. */
export const languages: readonly Language[] = [
  { id: 'curl', name: 'curl', write: curl },
  { id: 'node', name: 'Node', write: node },
  { id: 'python', name: 'Python', write: python },
  { id: 'php', name: 'PHP', write: php },
  { id: 'go', name: 'Go', write: go },
];
