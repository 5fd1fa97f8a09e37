/** Runs a command of the command line in the process of the test, which saves the start of a process. */

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export async function runInProcess(args: string[], environment: NodeJS.ProcessEnv): Promise<Ran> {
  // Loaded on demand: it imports the entire service.
  const { runCommandLine } = await import('../../src/cli/command-line.ts');
  const ran: Ran = { code: 0, stdout: '', stderr: '' };
  ran.code = await runCommandLine(args, environment, {
    out: (text) => {
      ran.stdout += text;
    },
    err: (text) => {
      ran.stderr += text;
    },
  });
  return ran;
}
