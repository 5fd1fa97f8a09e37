/** Runs a command of the command line in the process of the test, which is as good as a process of its own and spares its start. */

export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

export async function commandHere(args: string[], environment: NodeJS.ProcessEnv): Promise<Ran> {
  // Loaded where it is used: it brings all of the service.
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
