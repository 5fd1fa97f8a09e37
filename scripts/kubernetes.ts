/**
 * Renders the Helm chart of deploy/helm/postrider. As a command, it writes deploy/kubernetes/postrider.yaml, the base for Kustomize: the
 * chart with sample values. The renderer is test/tools/helm, a Go program on the libraries that Helm consists of, since Helm itself is not
 * in Debian. It needs Debian's packages golang-go, golang-github-masterminds-sprig-dev, golang-github-xeipuuv-gojsonschema-dev, and
 * golang-k8s-sigs-yaml-dev.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const root = path.dirname(import.meta.dirname);
/** Debian installs its packages of Go libraries here. */
export const GO_LIBRARIES = '/usr/share/gocode';

export type Values = Record<string, unknown>;

interface Release {
  name?: string;
  isUpgrade?: boolean;
}

/** Builds the renderer. The folder also holds Go's cache unless it has one. */
function build(folder: string): string {
  const source = path.join(folder, 'src/helm');
  const program = path.join(folder, 'render');
  mkdirSync(source, { recursive: true });
  for (const name of ['main.go', 'go.mod']) {
    copyFileSync(path.join(root, 'test/tools/helm', name), path.join(source, name));
  }
  // Debian's libraries are no modules. Inside a GOPATH, with a go.mod, the major version in the path of an import is ignored.
  const env = { ...process.env, GO111MODULE: 'off', GOPATH: `${folder}:${GO_LIBRARIES}`, CGO_ENABLED: '0' };
  execFileSync('go', ['build', '-o', program, 'helm'], { cwd: source, env, stdio: ['ignore', 'ignore', 'pipe'] });
  return program;
}

/** A renderer of the chart that was built in a temporary folder. Call `close` to delete it. */
export class ChartRenderer {
  readonly #folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-helm-'));
  readonly #program = build(this.#folder);

  /** Returns the text of each template, by its name. Throws with Helm's message if the values are not valid. */
  render(values: Values, { name = 'postrider', isUpgrade = false }: Release = {}): Record<string, string> {
    const chart = path.join(root, 'deploy/helm/postrider');
    const asked = { Chart: chart, Release: name, Namespace: 'mail', IsUpgrade: isUpgrade, Values: values };
    const { status, stdout, stderr } = spawnSync(this.#program, { input: JSON.stringify(asked), encoding: 'utf8' });
    if (status !== 0) throw new Error(stderr.trim());
    return JSON.parse(stdout);
  }

  close(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const BASE_VALUES: Values = {
  image: { repository: 'registry.example.com/postrider' },
  baseUrl: 'https://mail.example.com',
  existingSecret: 'postrider',
  content: { url: 's3://postrider/content?endpoint=https://s3.example.com&region=us-east-1' },
  tls: { existingSecret: 'postrider-smtp-tls' },
  // A Job is not run again when a manifest is applied: the first new pod updates the tables.
  migration: { enabled: false },
};

/** Returns deploy/kubernetes/postrider.yaml. */
export function kubernetesBase(renderer: ChartRenderer): string {
  const { 'NOTES.txt': _, ...templates } = renderer.render(BASE_VALUES);
  const documents = Object.values(templates)
    .flatMap((text) => text.split(/^---$/m))
    .map((text) => text.replace(/[ \t]+$/gm, '').trim())
    .filter((text) => text !== '')
    // Helm's own labels would be wrong without Helm.
    .map((text) => text.replace(/^ *(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): .*\n/gm, ''));
  const header = '# Generated from deploy/helm/postrider. Run: node scripts/kubernetes.ts';
  return `${header}\n${documents.join('\n---\n')}\n`;
}

if (import.meta.main) {
  const renderer = new ChartRenderer();
  try {
    writeFileSync(path.join(root, 'deploy/kubernetes/postrider.yaml'), kubernetesBase(renderer));
  } finally {
    renderer.close();
  }
}
