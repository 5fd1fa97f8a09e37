/** Exports the entire log as a file through the API, with the filters of the page. */
import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { callerOf, type Query } from '../../api.ts';
import { IconDownload } from '../../icons.ts';
import { saveFile } from '../../parts/csv.ts';
import { failed } from '../../parts/undo.tsx';
import { audit } from '../../texts/operator.ts';

const FILES = [
  ['exportServiceAuditAsCsv', audit.csv, 'audit.csv'],
  ['exportServiceAuditAsJsonLines', audit.jsonLines, 'audit.jsonl'],
] as const;

export function AuditExport({ query }: { query: Query<'exportServiceAuditAsCsv'> }) {
  const save = useMutation({
    mutationFn: async ([operation, , name]: (typeof FILES)[number]) => {
      const answer = await callerOf().call(operation, { query });
      saveFile(name, await answer.blob());
    },
    onError: failed,
  });
  return FILES.map((file) => (
    <Button
      key={file[0]}
      variant="default"
      leftSection={<IconDownload size={14} />}
      loading={save.isPending && save.variables === file}
      onClick={() => save.mutate(file)}
    >
      {file[1]}
    </Button>
  ));
}
