/**
 * Measures the length of functions from their syntax: the lines of a function without the named functions inside it, and those of its
 * entire scope, including every function inside it.
 */
import { parseSync } from 'oxc-parser';
import type { SourceFile } from './source-tree.ts';

export const FUNCTION_LINES_AT_MOST = 80;
export const SCOPE_LINES_AT_MOST = 120;

export interface FunctionSize {
  path: string;
  name: string;
  /** First line, from 1. */
  line: number;
  /** Without the named functions inside, except one line for each; anonymous callbacks count with the function around them. */
  ownLines: number;
  /** Including them. */
  scopeLines: number;
}

interface Node {
  type: string;
  start: number;
  end: number;
  [member: string]: unknown;
}

const WITHOUT_NAME = '(anonymous)';

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';

const isFunction = (node: Node): boolean =>
  ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'].includes(node.type) && isNode(node.body);

/** Returns a function from offsets to line numbers. */
function lineFinder(text: string): (offset: number) => number {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return (offset) => {
    let [low, high] = [0, starts.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (starts[middle]! <= offset) low = middle;
      else high = middle - 1;
    }
    return low + 1;
  };
}

/** Returns the name that a declaration, variable, property or method gives the function. */
function nameOf(node: Node, parent: Node | undefined): string {
  for (const holder of [node.id, parent?.key, parent?.id, parent?.left]) {
    if (isNode(holder) && typeof holder.name === 'string') return holder.name;
  }
  return WITHOUT_NAME;
}

/** Returns every function of a file with its size. */
export function functionSizes(file: SourceFile): FunctionSize[] {
  const { program, errors } = parseSync(file.path, file.text);
  if (errors.length > 0) throw new Error(`${file.path}: ${errors[0]!.message}`);
  const lineAt = lineFinder(file.text);
  const found: FunctionSize[] = [];
  const visit = (node: Node, parent: Node | undefined, holder: FunctionSize | undefined): void => {
    let inside = holder;
    if (isFunction(node)) {
      const line = lineAt(node.start);
      const scopeLines = lineAt(node.end) - line + 1;
      inside = { path: file.path, name: nameOf(node, parent), line, ownLines: scopeLines, scopeLines };
      found.push(inside);
      if (holder && inside.name !== WITHOUT_NAME) holder.ownLines -= scopeLines - 1;
    }
    for (const member of Object.values(node)) {
      for (const child of Array.isArray(member) ? member : [member]) if (isNode(child)) visit(child, node, inside);
    }
  };
  visit(program as unknown as Node, undefined, undefined);
  return found;
}

/** Returns functions that are too long by one of the measures. */
export function longFunctions(files: SourceFile[]): FunctionSize[] {
  return files
    .flatMap(functionSizes)
    .filter((one) => one.ownLines > FUNCTION_LINES_AT_MOST || one.scopeLines > SCOPE_LINES_AT_MOST);
}
