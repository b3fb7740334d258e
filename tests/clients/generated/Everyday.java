/** Everyday work by the client that openapi-generator makes in Java: search, read, a dry run, update, an error. */

import com.fasterxml.jackson.databind.DeserializationFeature;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.UsersApi;
import org.openapitools.client.model.AccountPart;
import org.openapitools.client.model.UpdateAccount;

public class Everyday {
    public static void main(String[] arguments) throws Exception {
        var client = new ApiClient();
        client.updateBaseUri(System.getenv("GATEWAY_URL"));
        client.setRequestInterceptor(request -> request.header("X-API-Key", System.getenv("GATEWAY_KEY")));
        // Or it takes the answer of a dry run for a changed object, too.
        var json = client.getObjectMapper().enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
        client.setObjectMapper(json);
        var users = new UsersApi(client);

        var search = UsersApi.APIUsersSearchRequest.newBuilder().base(System.getenv("GATEWAY_UNIT")).pageSize(10);
        var found = users.usersSearch(search.build()).getItems().get(0);
        var read = users.usersRead(UsersApi.APIUsersReadRequest.newBuilder().id(found.getId()).build());

        var set = new UpdateAccount().putReplaceItem("title", "Countess");
        set.account(new AccountPart().expiresAt("2199-01-01T00:00:00Z"));
        // Read as JSON, changed and sent again: what nobody mentioned is not sent.
        var changes = json.readValue(json.writeValueAsString(set), UpdateAccount.class);
        var update = UsersApi.APIUsersUpdateRequest.newBuilder().id(read.getId()).updateAccount(changes);
        if (users.usersUpdate(update.dryRun(true).build()).getDryRun().getChanges().size() != 2) {
            throw new IllegalStateException("no dry run");
        }
        update.dryRun(false).ifMatch('"' + read.getVersion() + '"').xChangeReason("Promoted");
        var updated = users.usersUpdate(update.build()).getChangedObject();
        if (!updated.getAttributes().get("title").contains("Countess")) {
            throw new IllegalStateException("nothing was updated");
        }

        try {
            users.usersRead(UsersApi.APIUsersReadRequest.newBuilder().id(new UUID(0, 0)).build());
        } catch (ApiException refusal) {
            System.out.println(refusal.getResponseBody());
        }
    }
}
