/**
 * Checks manifests against the schemas of Kubernetes, of the Prometheus Operator, and of the External Secrets Operator, from the packages
 * in test/tools. Their validators check types and values but accept unknown fields, so the TypeScript compiler checks names: an object
 * literal may only have the fields of its type.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { toolPath } from './test-tools.ts';

// biome-ignore lint/suspicious/noExplicitAny: manifests are read by path
export type Manifest = any;

const OTHERS: Record<string, string> = {
  'monitoring.coreos.com': '@kubernetes-models/prometheus-operator/',
  'external-secrets.io': '@kubernetes-models/external-secrets/',
};

/** The module that describes the kind, for example kubernetes-models/apps/v1/Deployment. */
function moduleOf({ apiVersion, kind }: Manifest): string {
  const library = OTHERS[apiVersion.split('/')[0]] ?? 'kubernetes-models/';
  return `${library}${apiVersion}/${kind}`;
}

/** Returns what is wrong with the value of a field, or with a required one that is missing. */
async function wrongValues(manifest: Manifest): Promise<string[]> {
  const { [manifest.kind]: Model } = await import(toolPath(`${moduleOf(manifest)}.js`));
  try {
    new Model(manifest).validate();
    return [];
  } catch (error) {
    return [`${manifest.kind} ${manifest.metadata?.name}: ${(error as Error).message}`];
  }
}

/** Returns the compiler's errors about fields that do not exist. */
function unknownFields(manifests: Manifest[]): string[] {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-kubernetes-'));
  try {
    symlinkSync(toolPath(''), path.join(folder, 'node_modules'));
    const lines = manifests.map((manifest, index) => {
      const type = `import('${moduleOf(manifest)}').I${manifest.kind}`;
      return `export const manifest${index}: ${type} = ${JSON.stringify(manifest, null, 1)};`;
    });
    writeFileSync(path.join(folder, 'manifests.ts'), lines.join('\n'));
    const compilerOptions = { module: 'nodenext', noEmit: true, strict: true, skipLibCheck: true, types: [] };
    writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
    writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['manifests.ts'] }));
    const compiler = path.resolve(import.meta.dirname, '../../node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(process.execPath, [compiler, '-p', folder, '--pretty', 'false'], {
      encoding: 'utf8',
    });
    if (status === 0) return [];
    return stdout.trim().split('\n');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns everything in the manifests that Kubernetes would refuse. */
export async function schemaFaults(manifests: Manifest[]): Promise<string[]> {
  const wrong = await Promise.all(manifests.map(wrongValues));
  return [...wrong.flat(), ...unknownFields(manifests)];
}
