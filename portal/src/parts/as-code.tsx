/** The API call of a page as curl, Node and Python, with the current values. */
import { ActionIcon, Modal, Text, Tooltip } from '@mantine/core';
import { useState } from 'react';
import { routes } from '../../../clients/typescript/src/schema.ts';
import type { Input, OperationId } from '../api.ts';
import { serviceUrl } from '../base-path.ts';
import { IconTerminal2 } from '../icons.ts';
import { useScope } from '../scope.ts';
import { copying } from '../texts/parts.ts';
import { Snippets } from './copy.tsx';

export interface Call {
  method: string;
  url: string;
  accountId: string;
  body: unknown;
}

type Values = { path?: Record<string, string>; query?: Record<string, unknown>; body?: unknown };

export function callOf<O extends OperationId>(operation: O, input: Input<O>, accountId: string): Call {
  const [method, template] = routes[operation];
  const { path = {}, query = {}, body } = input as Values;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== '') search.append(name, String(one));
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ''));
  return { method, url: `${serviceUrl}${filled}${search.size > 0 ? `?${search}` : ''}`, accountId, body };
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
/** Formats JSON as Python, including its strings. */
function python(value: unknown, indent = '    '): string {
  if (value === null || typeof value === 'boolean')
    return { null: 'None', true: 'True', false: 'False' }[`${value as null}`]!;
  if (typeof value !== 'object') return JSON.stringify(value);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const inner = `${indent}    `;
  const items = Object.entries(value!).map(([name, one]) =>
    Array.isArray(value) ? python(one, inner) : `${JSON.stringify(name)}: ${python(one, inner)}`,
  );
  return `${open}${items.map((one) => `\n${inner}${one},`).join('')}\n${indent}${close}`;
}

export function snippetsOf({ method, url, accountId, body }: Call, key = '$POSTRIDER_KEY'): Record<string, string> {
  const isVariable = key.startsWith('$');
  const json = body === undefined ? undefined : JSON.stringify(body, null, 2);
  const curl = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(url)}`,
    `-H "X-Id: ${accountId}"`,
    `-H "X-Api-Key: ${key}"`,
    ...(json === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(json)}`]),
  ].join(' \\\n  ');
  const [node, py] = isVariable
    ? ['process.env.POSTRIDER_KEY', "os.environ['POSTRIDER_KEY']"]
    : [`'${key}'`, `'${key}'`];
  const jsHeaders = `{ 'X-Id': '${accountId}', 'X-Api-Key': ${node}${json === undefined ? '' : ", 'Content-Type': 'application/json'"} }`;
  const js = `const response = await fetch(${JSON.stringify(url)}, {
  method: '${method}',
  headers: ${jsHeaders},${json === undefined ? '' : `\n  body: JSON.stringify(${json.replaceAll('\n', '\n  ')}),`}
});
console.log(response.status, await response.json());`;
  const pyBody = body === undefined ? '' : `,\n    data=json.dumps(${python(body)}).encode()`;
  const pyHeaders = `{'X-Id': '${accountId}', 'X-Api-Key': ${py}${json === undefined ? '' : ", 'Content-Type': 'application/json'"}}`;
  const pythonCode = `import json${isVariable ? ', os' : ''}, urllib.request

request = urllib.request.Request(
    ${JSON.stringify(url)}, method='${method}',
    headers=${pyHeaders}${pyBody})
with urllib.request.urlopen(request) as response:
    print(response.status, json.load(response))`;
  return { curl, Node: js, Python: pythonCode };
}

export function AsCode<O extends OperationId>({
  operation,
  input = {} as Input<O>,
}: {
  operation: O;
  input?: Input<O>;
}) {
  const { account } = useScope();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Tooltip label={copying.asCode}>
        <ActionIcon size="md" aria-label={copying.asCode} onClick={() => setOpen(true)}>
          <IconTerminal2 size={16} />
        </ActionIcon>
      </Tooltip>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={copying.asCodeTitle} size="lg">
        <Text c="dimmed" mb="sm">
          {copying.asCodeHint}
        </Text>
        <Snippets of={snippetsOf(callOf(operation, input, account?.accountId ?? ''))} label={copying.asCodeTitle} />
      </Modal>
    </>
  );
}
